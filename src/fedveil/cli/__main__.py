from fedveil.cli import main

main()
