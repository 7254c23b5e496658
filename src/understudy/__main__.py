"""``python -m understudy train …``, where the command itself is not on the path."""

from understudy.cli import main

main()
