"""The program `observatory`, which only a checkout of duetbench has."""

from observatory.cli import main

if __name__ == "__main__":
    main()
