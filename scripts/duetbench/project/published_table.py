"""Somebody's published table as rows of figures: forgiving about headings, strict about units.

A figure is kept with what its printed digits leave open, so that nobody is accused of rounding.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final, Literal, Self

from duetbench.core.errors import DeclarationError, UsageError

Kind = Literal["time", "rate", "count", "cores", "word"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure in SI units: it may be anything from `low` to `high`, and is printed as `text`."""

    value: float
    low: float
    high: float
    text: str = ""

    @classmethod
    def exact(cls, value: float) -> Self:
        """A figure without rounding."""
        return cls(value, value, value)

    def __mul__(self, other: "Figure") -> "Figure":
        return Figure(self.value * other.value, self.low * other.low, self.high * other.high)

    def __truediv__(self, other: "Figure") -> "Figure":
        ends = (self.low, other.high), (self.value, other.value), (self.high, other.low)
        low, value, high = (a / b if b > 0 else float("inf") for a, b in ends)
        return Figure(value, low, high)


@dataclass(frozen=True, slots=True)
class Column:
    """What a column may hold: its kind of unit, and the headings by which it goes."""

    kind: Kind
    headings: tuple[str, ...]


_PERCENTILE: Final = re.compile(r"p(\d{1,2}(?:\.\d+)?|9{3,5})|(\d{1,2}(?:\.\d+)?) ?(?:%|th)")
_OF_PERCENTILE: Final = re.compile(r"p(\d{1,2}(?:\.\d+)?)")
_TIMES: Final = ("latency", "response", "time", "times", "service", "percentile", "request")
"""Words in headings of times that say nothing of which one it is."""

QUANTITIES: Final[dict[str, Column]] = {
    "rate": Column("rate", ("rate", "rps", "qps", "throughput", "req/s", "reqs/s", "req/sec",
        "requests/s", "requests/sec", "requests per second", "achieved")),
    "offered": Column("rate", ("offered", "offered rate", "target rate", "offered rps")),
    "connections": Column("count", ("connections", "conns", "c", "concurrency", "clients",
        "concurrent connections", "users", "vus", "virtual users")),
    "streams": Column("count", ("streams", "streams per connection", "pipeline", "pipelining")),
    "slots": Column("count", ("slots", "at once")),
    "workers": Column("count", ("workers", "processes", "procs")),
    "threads": Column("count", ("threads", "threads per worker", "blocking threads")),
    "cores": Column("count", ("cores", "cpus")),
    "cpu": Column("cores", ("cpu", "server cpu", "cpu usage", "cpu used", "cores used",
        "server cores")),
    "wait": Column("time", ("wait", "waits", "floor", "sleep", "delay", "service floor")),
    "duration": Column("time", ("duration", "test duration", "length")),
    "mean": Column("time", ("mean", "avg", "average")),
    "min": Column("time", ("min", "minimum", "fastest", "shortest")),
    "max": Column("time", ("max", "maximum", "slowest", "longest", "worst")),
    "sent": Column("count", ("sent", "requests sent", "issued")),
    "answered": Column("count", ("answered", "requests", "total requests", "responses",
        "completed", "complete requests", "requests completed", "count")),
    "good": Column("count", ("good", "ok", "2xx", "successes", "successful", "succeeded")),
    "errors": Column("count", ("errors", "failed", "failures", "failed requests", "non 2xx")),
    "model": Column("word", ("model", "load model")),
}  # fmt: skip
"""All that is understood, but for percentiles (p50, p99.9, "95 %", median), which are times."""

UNITS: Final[dict[Kind, dict[str, float]]] = {
    "time": {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0,
        "secs": 1.0, "seconds": 1.0, "msec": 1e-3, "min": 60.0, "h": 3600.0},
    "rate": {"/s": 1.0, "1/s": 1.0, "rps": 1.0, "req/s": 1.0, "req/sec": 1.0, "requests/s": 1.0,
        "/sec": 1.0, "/min": 1 / 60, "k/s": 1e3, "krps": 1e3, "k": 1e3, "m": 1e6, "": 1.0},
    "count": {"k": 1e3, "m": 1e6, "": 1.0},
    "cores": {"cores": 1.0, "core": 1.0, "%": 0.01},
    "word": {},
}  # fmt: skip
"""What each kind is multiplied by. Without a unit there are counts, and rates, which are per s."""

_USUAL: Final[dict[Kind, tuple[str, ...]]] = {
    "time": ("ms", "s", "µs", "ns"), "rate": ("/s", "k/s"), "cores": ("cores", "%"),
    "count": ("k", "m"), "word": (),
}  # fmt: skip
_ALL_UNITS: Final = frozenset(unit for units in UNITS.values() for unit in units if unit)
_TELLING: Final = _ALL_UNITS - {"min", "m", "k", "h", "core", "cores"}
"""Units that a heading tells without brackets: "mean_ms"; "min" is the shortest time there, and
"cpu cores" may be those that there are, or those that were used."""
_USED: Final = frozenset({"cores used", "server cores"})

_BRACKETS: Final = re.compile(r"[(\[]\s*([^)\]]*?)\s*[)\]]")
_NUMBER: Final = re.compile(
    r"([+-]?(?:\d{1,3}(?:[,_ '\u2019\u00a0\u202f]\d{3})+|\d+)?(?:\.\d+)?(?:e[+-]?\d+)?)(.*)"
)
_MISSING: Final = frozenset({"", "-", "\u2013", "—", "n/a", "na", "null", "none", "nan"})
_MODELS: Final = ("closed", "paced", "open")
_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One row: where it stands, what tells it apart, its figures, and how its load is made."""

    place: str
    label: str
    figures: Mapping[str, Figure]
    model: str = "closed"


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A published table: rows, which column is what, and which columns nothing is known of."""

    source: str
    rows: tuple[PublishedRow, ...]
    columns: Mapping[str, str]
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Terms:
    """What a table does not say itself.

    Attributes:
        columns: By heading: the quantity, or "label".
        units: By quantity, or kind of it ("time"): the unit.
        common: By quantity: the value that all rows share, with its unit.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    common: Mapping[str, str] = field(default_factory=dict)


def percentile(name: str) -> float | None:
    """The quantile of a time's name, such as 0.99 of "p99"; None: it is no percentile."""
    found = _OF_PERCENTILE.fullmatch(name)
    return float(found[1]) / 100 if found else None


def read(path: Path, terms: Terms | None = None) -> PublishedTable:
    """Read a table: CSV (or separated by tabs or semicolons) with a header, or JSON.

    JSON is a list of objects, or an object with one such list; objects in them count as
    "outer.inner". Lines of CSV that begin with # are left out.

    Raises:
        UsageError: There is no such file.
        DeclarationError: Which line and column cannot be read, and what is allowed there.
    """
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, ValueError) as problem:
        raise UsageError(f"{path}: expected a table as CSV or JSON: {problem}") from problem
    found = _json(text, str(path)) if text.lstrip()[:1] in {"[", "{"} else _csv(text, str(path))
    return table(found, str(path), terms)


def table(
    rows: Iterable[tuple[str, Mapping[str, str]]], source: str, terms: Terms | None = None
) -> PublishedTable:
    """Make a table of rows, each with its place in the source and its cells as they are printed.

    Raises:
        DeclarationError: As `read`.
    """
    terms = terms or Terms()
    found = list(rows)
    if not found:
        raise DeclarationError(source, "rows", "none", "a header and at least one row of figures")
    for where, names in (("--set", terms.common), ("--unit", terms.units)):
        for name in names:
            if _kind(name) is None and name not in UNITS:
                raise UsageError(f"{where} {name}=…: expected one of {_known()}")
    headings = tuple(dict.fromkeys(heading for _, cells in found for heading in cells))
    meant = _columns(headings, source, terms)
    made = [_row(place, cells, meant, source, terms) for place, cells in found]
    columns = {heading: name for heading, (name, _) in meant.items()}
    return PublishedTable(
        source, tuple(made), columns, tuple(h for h in headings if h not in columns)
    )


def _row(
    place: str,
    cells: Mapping[str, str],
    meant: Mapping[str, tuple[str, str | None]],
    source: str,
    terms: Terms,
) -> PublishedRow:
    figures: dict[str, Figure] = {}
    model = ""
    common = {name: (name, text, None) for name, text in terms.common.items()}
    told = {
        name: (heading, cells.get(heading, ""), unit) for heading, (name, unit) in meant.items()
    }
    for name, (heading, text, unit) in {**common, **told}.items():
        if text.strip().lower() in _MISSING:
            continue
        where = f"{place}, {heading}"
        if _kind(name) == "word":
            model = text.strip().lower()
            if model not in _MODELS:
                raise DeclarationError(source, where, text, " or ".join(_MODELS))
            continue
        asked = unit or terms.units.get(name) or terms.units.get(_kind(name) or "")
        figures[name] = _figure(text, name, asked, source, where)
    label = " ".join(text for heading, text in cells.items() if heading not in meant and text)
    return PublishedRow(
        place, label, figures, model or ("paced" if "offered" in figures else "closed")
    )


def _columns(
    headings: Sequence[str], source: str, terms: Terms
) -> dict[str, tuple[str, str | None]]:
    """What each understood column holds, and the unit that its heading tells."""
    if unknown := sorted(set(terms.columns) - set(headings)):
        raise DeclarationError(source, "--column", unknown[0], ", ".join(headings))
    meant: dict[str, tuple[str, str | None]] = {}
    for heading in headings:
        name, unit = _heading(heading)
        name = terms.columns.get(heading, name)
        if name is None or name == "label":
            continue
        if _kind(name) is None:
            raise DeclarationError(source, f"--column {heading}", name, f"{_known()}, label")
        twin = next((other for other, (taken, _) in meant.items() if taken == name), None)
        if twin is not None:
            raise DeclarationError(
                source, f"columns {twin!r} and {heading!r}", name,
                f"one column of it: --column '{heading}=label' leaves the other out",
            )  # fmt: skip
        meant[heading] = (name, unit)
    if not meant:
        raise DeclarationError(source, "header", ", ".join(headings)[:_SHOWN], _known())
    return meant


def _heading(heading: str) -> tuple[str | None, str | None]:
    """The quantity that a heading names, if it is one, and its unit, if there is one."""
    text, unit = heading.strip().lower(), None
    for inside in _BRACKETS.findall(text):
        if inside in _ALL_UNITS:
            unit = inside
    text = _BRACKETS.sub(lambda found: "" if found[1] in _ALL_UNITS else f" {found[1]} ", text)
    text = re.sub(r"percentile\W*(?=\d)", "p", re.sub(r"[\s_:;,-]+|\.(?!\d)", " ", text)).strip()
    if text in _USED:
        unit = unit or "cores"
    if name := _quantity(text):
        return name, unit
    words = text.split()
    if unit is None and len(words) > 1 and (tells := [w for w in words if w in _TELLING]):
        unit = tells[-1]
        words.remove(unit)
    rest = (word for word in words if word not in _TIMES)
    return _quantity(" ".join(words)) or _time(" ".join(rest)), unit


def _quantity(text: str) -> str | None:
    return next((name for name, row in QUANTITIES.items() if text in row.headings), _time(text))


def _time(text: str) -> str | None:
    """The time that is meant: a percentile, the median, or one of those with a name."""
    if text == "median":
        return "p50"
    if found := _PERCENTILE.fullmatch(text):
        digits = found[1] or found[2]
        return f"p{digits[:2]}.{digits[2:]}" if re.fullmatch(r"9{3,5}", digits) else f"p{digits}"
    times = ((name, row.headings) for name, row in QUANTITIES.items() if row.kind == "time")
    return next((name for name, headings in times if text in headings), None)


def _kind(name: str) -> Kind | None:
    return "time" if percentile(name) is not None else (
        QUANTITIES[name].kind if name in QUANTITIES else None
    )  # fmt: skip


def _known() -> str:
    return ", ".join([*QUANTITIES, "p50", "p99 and other percentiles"])


def _figure(text: str, name: str, unit: str | None, source: str, where: str) -> Figure:
    """Read one cell; what the last printed digit leaves open is half a unit of it each way."""
    kind = _kind(name) or "count"
    printed = " ".join(text.split())
    units = UNITS[kind]
    found = _NUMBER.fullmatch(printed.lower())
    own = found[2].strip() if found else ""
    odd = not found or not any(map(str.isdigit, found[1])) or own[:1] in set(",.0123456789")
    if found is None or odd or found[1].startswith("-"):
        allowed = "a number from 0 on, such as 1,234.5, with or without a unit"
        raise DeclarationError(source, where, printed[:_SHOWN], allowed)
    told = own or (unit or "").strip().lower()
    if told not in units:
        usual = _USUAL[kind]
        problem = f"{printed} in {told!r}" if told else f"{printed}, without a unit"
        raise DeclarationError(
            source, where, problem[:_SHOWN],
            f"a unit ({', '.join(usual)}) in the cell, in the heading as '{name} ({usual[0]})', "
            f"or told: --unit {name}={usual[0]}",
        )  # fmt: skip
    try:
        number = Decimal(re.sub(r"[^\d.e+-]", "", found[1]))
    except InvalidOperation as error:
        raise DeclarationError(source, where, printed[:_SHOWN], "a number") from error
    factor = units[told]
    exponent = number.as_tuple().exponent
    half = 0.5 * 10.0 ** (exponent if isinstance(exponent, int) else 0)
    # What is counted is exact, unless in thousands; a wait is what somebody wrote, not measured.
    if name == "wait" or (kind == "count" and factor == 1 and exponent == 0):
        half = 0.0
    value = float(number)
    shown = printed if own or not told or kind in {"rate", "count"} else f"{printed} {told}"
    return Figure(value * factor, (value - half) * factor, (value + half) * factor, shown)


def _csv(text: str, source: str) -> list[tuple[str, dict[str, str]]]:
    lines = text.splitlines()
    kept = [(n, one) for n, one in enumerate(lines, 1) if one.strip() and not one.startswith("#")]
    if not kept:
        return []
    delimiter = max(",;\t", key=kept[0][1].count)
    # A row may be longer than a line: the reader tells where it ends.
    reader = csv.reader(io.StringIO("\n".join(line for _, line in kept)), delimiter=delimiter)
    header = [cell.strip() for cell in next(reader)]
    if len(set(header)) < len(header):
        raise DeclarationError(source, "header", ", ".join(header)[:_SHOWN], "each heading once")
    rows = []
    for cells in reader:
        place = f"line {kept[min(reader.line_num, len(kept)) - 1][0]}"
        if len(cells) != len(header):
            raise DeclarationError(
                source, place, f"{len(cells)} cells", f"{len(header)}, as the header has"
            )
        rows.append((place, dict(zip(header, map(str.strip, cells), strict=True))))
    return rows


def _json(text: str, source: str) -> list[tuple[str, dict[str, str]]]:
    try:
        # Numbers stay as they are printed: 4.20 tells more than 4.2.
        document = json.loads(text, parse_float=str, parse_int=str, parse_constant=str)
    except (ValueError, RecursionError) as error:
        raise DeclarationError(source, "JSON", str(error)[:_SHOWN], "a list of objects") from error
    if isinstance(document, dict):
        lists = [value for value in document.values() if _is_rows(value)]
        document = lists[0] if len(lists) == 1 else [document] if not lists else None
    if not _is_rows(document):
        raise DeclarationError(
            source, "JSON", text.strip()[:20], "a list of objects, or an object with one of them"
        )
    return [(f"row {n}", dict(_flat(row))) for n, row in enumerate(document, 1)]


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(o, dict) for o in value)


def _flat(row: Mapping[str, Any], outer: str = "") -> Iterable[tuple[str, str]]:
    for key, value in row.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{outer}{key}.")
        elif not isinstance(value, list):
            yield f"{outer}{key}", "" if value is None else str(value)
