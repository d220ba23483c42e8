"""Texts of SQL statements: never with a value, and still readable."""

import random
from collections.abc import Mapping, Sequence
from typing import Final

import pytest

from duetbench.effects.libraries import statement
from goldens import assert_said

MARK: Final = "ж"
"""A letter that each value has, and nothing else."""

# Of each database: how values are written, with the replacements in them; and what it reads as a
# name, an operator or a remark, though another reads something else.
_PLAIN: Final = ("'{}'", {"'": "''"})
_DOUBLE: Final = ('"{}"', {'"': '""'})
_BACKSLASH: Final = {"\\": "\\\\", "'": "\\'", '"': '\\"'}
DIALECTS: Final[Mapping[str, tuple[Sequence[tuple[str, Mapping[str, str]]], Sequence[str]]]] = {
    "SQLite": (
        [_PLAIN, _DOUBLE],
        ["[it's]", "[a -- b]", '[a "b]', "[/*]", "['a\\']", "['it]", "[$$a]", "[#> ']", "`it's`",
         '"a"."b"', "$x", ":y", "/* /* */"],
    ),
    "PostgreSQL": (
        [_PLAIN, ("N'{}'", {"'": "''"}), ("E'{}'", _BACKSLASH), ("$${}$$", {"$": ""}),
         ("$t${}$t$", {"$": ""})],
        ["#", "#>", "#- ", '"it\'s"', "x::int", "--don't\n", "/* a /* ' */ b */", "a['b]c']"],
    ),
    "MySQL": (
        [("'{}'", _BACKSLASH), ('"{}"', _BACKSLASH), ("_utf8'{}'", {"\\": "\\\\", "'": "''"})],
        ["# don't\n", "#> it's\n", "#> '{\n", "#>> $1 it's\n", "5--1", "`it's`", "/* /* ' */",
         "/*! 1 */", "/*!'*/' */"],
    ),
    "Oracle": ([_PLAIN, ("q'[{}]'", {"]": ""}), ("nq'!{}!'", {"!": ""})], ['"a"', "--it's\n"]),
}  # fmt: skip
_MARKS: Final = ("--", "-- ", "/*", "*/", "$$", "$t$", "''", "FROM", "*/'")
PIECES: Final = [*"'\"`\\#[]!$.(),;\n ax1", *_MARKS]
PLACES: Final = [
    "SELECT {0}, {1} NOISE FROM t", "SELECT a NOISE FROM t WHERE b = {0} AND NOISE c LIKE {1}",
    "INSERT INTO t (a, NOISE b) VALUES ({0}, {1}), ({2}, NOISE {0})", "INSERT INTO t VALUES({0})",
    "INSERT INTO t (SELECT {0}, {1} FROM u WHERE a IN ({2}, NOISE {0}))",
    "UPDATE t SET a = {0}, b = f({1}, {2}) NOISE WHERE c = {0} ORDER BY a, {1}",
    "SELECT TRIM(BOTH {0} FROM {1}), a NOISE IS DISTINCT FROM {2} FROM t GROUP BY {0}, {1}",
    "SELECT a FROM t JOIN u ON {0} = b NOISE ORDER BY a, {1} LIMIT 1", "SET a = {0}, b = {1}",
    "NOISE SELECT CAST({0} AS text), NOISE {1} AS b", "PRAGMA key = {0}", "PRAGMA key({0})",
    "ALTER USER a IDENTIFIED BY {0} REPLACE {1}", "PREPARE s FROM {0}", "VACUUM INTO {0}",
    "INSERT INTO t SET a = {0}, b = {1} ON DUPLICATE KEY UPDATE a = {0}, b = IF(c, {1}, {2})",
    "CREATE TABLE t (a text DEFAULT {0} CHECK (a IN ({1}, {2})))", "ATTACH {0} AS a",
    "WITH x AS (SELECT {0} NOISE) SELECT CASE a WHEN {1} THEN {2} END FROM json_each({0})",
    "{0}; SELECT {1}",
]  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS)
def test_nothing_of_a_value_is_shown_whatever_is_around_it(dialect: str) -> None:
    quotes, noise = DIALECTS[dialect]
    rng = random.Random(dialect)

    def write() -> str:
        form, replaced = rng.choice(quotes)
        pieces = [*rng.choices(PIECES, k=rng.randrange(7)), MARK, *rng.choices(PIECES, k=3)]
        if rng.random() < 0.4:
            pieces = [MARK]  # as a plain name is
        return form.format("".join(replaced.get(sign, sign) for sign in "".join(pieces)))

    for _ in range(4_000):
        place = rng.choice(PLACES).format(write(), write(), write())
        first, *rest = place.split("NOISE")
        text = first + "".join(f"{rng.choice(noise)} {part}" for part in rest)
        for end in {len(text), *rng.choices(range(len(text)), k=5)}:
            seen = statement(text[:end])
            assert seen is None or MARK not in seen[1], (text[:end], seen)


def test_a_statement_stays_readable_and_a_remark_is_none() -> None:
    """Of Django, SQLAlchemy and others: its kind and text."""
    assert_said("statements", lambda sent: ": ".join(statement(sent) or ("nothing",)))
