"""`python -m corral` is `corral`."""

from corral.cli.main import main

main()
