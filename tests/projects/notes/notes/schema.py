"""Make a database with a hundred notes (`python -m notes.schema`), or remove it (`--drop`)."""

import os
import sys
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg.sql import SQL, Identifier


def main() -> None:
    """Start from nothing: the database of NOTES_DATABASE_URL is made beside the server's own."""
    address = os.environ["NOTES_DATABASE_URL"]
    parts = urlsplit(address)
    name = Identifier(parts.path.lstrip("/"))
    with psycopg.connect(urlunsplit(parts._replace(path="/postgres")), autocommit=True) as server:
        server.execute(SQL("drop database if exists {}").format(name))
        if "--drop" in sys.argv:
            return
        server.execute(SQL("create database {}").format(name))
    with psycopg.connect(address) as database:
        database.execute("create table notes (id serial primary key, text text not null)")
        database.execute(
            "insert into notes (text) select 'Note ' || n from generate_series(1, 100) as n"
        )


if __name__ == "__main__":
    main()
