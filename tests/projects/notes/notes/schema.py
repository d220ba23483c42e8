"""Bring the database of NOTES_DATABASE_URL up to date: `python -m notes.schema`."""

import os

import psycopg

STEPS = ("create table if not exists notes (id serial primary key, text text not null)",)


def main() -> None:
    """Take all steps; those that were taken change nothing."""
    with psycopg.connect(os.environ["NOTES_DATABASE_URL"]) as database:
        for step in STEPS:
            database.execute(step)


if __name__ == "__main__":
    main()
