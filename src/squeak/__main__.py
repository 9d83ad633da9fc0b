"""``python -m squeak`` is the command ``squeak``."""

from squeak.cli import main

if __name__ == "__main__":
    main()
