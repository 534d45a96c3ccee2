"""``python -m colonnade`` is the command ``colonnade``."""

from colonnade.cli import main

if __name__ == "__main__":
    main()
