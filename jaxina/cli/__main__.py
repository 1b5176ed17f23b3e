from jaxina.cli.app import main

main()
