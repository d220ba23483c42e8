"""Copies of databases: which variable names what, and that nothing but copies is written."""

import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from duetbench.app.databases import Database, find
from duetbench.core.errors import UsageError
from goldens import assert_said

Find = Callable[..., Database]


@pytest.fixture
def database(tmp_path: Path) -> Find:
    (tmp_path / "shop.db").touch()
    names = {"DB": "shop", "HOST": "db:5432", "FILE": str(tmp_path / "shop.db")}
    return lambda text, **more: find(text, {**names, **more}, [tmp_path], Path(sys.executable))


def test_the_variable_names_the_copy_as_it_named_the_original(
    database: Find, tmp_path: Path
) -> None:
    """What cannot be copied is refused with the reason."""

    def copied(line: str) -> str:
        text, _, value = line.partition("=")
        try:
            original = database(text, URL=value.replace("{folder}", str(tmp_path)[1:]))
        except UsageError as error:
            return str(error)
        assert original.name in {"shop", str(tmp_path / "shop.db")}
        copy = original.fresh(tmp_path / "launch")
        (variable,) = copy.variables.values()
        return variable.replace(copy.name, "COPY")

    assert_said("databases", copied)


@pytest.mark.parametrize("mode", ["delete", "wal", "wal, in use"])
def test_a_file_of_sqlite_stays_as_it_was(mode: str, database: Find, tmp_path: Path) -> None:
    """Also beside it nothing is left."""
    file, place = tmp_path / "shop.db", tmp_path / "launch"
    place.mkdir()
    with closing(sqlite3.connect(file)) as writer:
        writer.execute(f"pragma journal_mode = {mode.partition(',')[0]}")
        writer.execute("create table item (id integer)")
        writer.execute("insert into item values (7)")
        writer.commit()
        if not mode.endswith("in use"):
            writer.close()
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
        original = database("URL", URL="sqlite:///shop.db")
        copy = original.fresh(place)
        copy.fill(original)
        with closing(sqlite3.connect(copy.name)) as reader:
            assert reader.execute("select id from item").fetchall() == [(7,)]
            reader.execute("delete from item")
            reader.commit()
        copy.drop()
        after = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
        assert {name: before[name] for name in after if not name.endswith("-shm")} == {
            name: data for name, data in after.items() if not name.endswith("-shm")
        }
