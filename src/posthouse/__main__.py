"""`python -m posthouse`: the command line, where its script is not on the path."""

from posthouse.cli.main import main

if __name__ == "__main__":
    main()
