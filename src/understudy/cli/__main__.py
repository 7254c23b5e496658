from understudy.cli.commands import main

main()
