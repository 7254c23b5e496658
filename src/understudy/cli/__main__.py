from understudy.cli.app import main

main()
