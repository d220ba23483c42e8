"""Notes in PostgreSQL: a Flask application behind a factory, beside its requirements.txt."""

import os
import threading

import psycopg
from flask import Flask, abort, request
from psycopg.rows import dict_row


def create_app() -> Flask:
    """Make the application; NOTES_DATABASE_URL says where its notes are."""
    app = Flask(__name__)
    address = os.environ["NOTES_DATABASE_URL"]
    mine = threading.local()

    def database() -> psycopg.Connection[dict[str, object]]:
        """The connection of this thread."""
        if not hasattr(mine, "connection"):
            mine.connection = psycopg.connect(address, autocommit=True, row_factory=dict_row)
        connection: psycopg.Connection[dict[str, object]] = mine.connection
        return connection

    @app.get("/notes/<int:number>")
    def note(number: int) -> dict[str, object]:
        found = database().execute("select id, text from notes where id = %s", (number,)).fetchone()
        if found is None:
            abort(404)
        return found

    @app.post("/notes")
    def add() -> tuple[dict[str, object], int]:
        text = request.get_json()["text"]
        added = "insert into notes (text) values (%s) returning text"
        return database().execute(added, (text,)).fetchone() or {}, 201

    return app
