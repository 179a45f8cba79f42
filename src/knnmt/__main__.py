"""`python -m knnmt` is the command line."""

from knnmt.cli.main import main

if __name__ == "__main__":
    main()
