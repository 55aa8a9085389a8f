"""`python -m levelfield` is the command line."""

from levelfield.cli import main

main()
