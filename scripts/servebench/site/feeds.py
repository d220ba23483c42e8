"""Change points as an Atom feed (RFC 4287). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final
from xml.etree import ElementTree as ET

from servebench.core.units import significant
from servebench.record.change import ChangeRecord
from servebench.report.change import told

_ATOM: Final = "http://www.w3.org/2005/Atom"
_NO_XML: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, even escaped."""
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


def atom(changes: Iterable[ChangeRecord], base: str = "") -> bytes:
    """The feed, newest change first; the same changes always give the same bytes.

    Args:
        changes: The records.
        base: Address of the site with a slash at its end; empty: links are relative to the feed.
    """
    newest = sorted(changes, key=lambda record: (record.when, record.id), reverse=True)
    ET.register_namespace("", _ATOM)
    feed = ET.Element(_name("feed"))
    _add(feed, "title", "servebench: changes of the Python web stack")
    _add(feed, "id", base or "urn:servebench:changes")
    _add(feed, "updated", _moment(newest[0].when if newest else _EPOCH))
    _add(_add(feed, "author"), "name", "servebench")
    _link(feed, "self", f"{base}changes.atom")
    _link(feed, "alternate", base or "./")
    for record in newest:
        _entry(feed, record, base)
    ET.indent(feed, " ")
    return (
        b'<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(feed, "unicode").encode() + b"\n"
    )


def title(record: ChangeRecord) -> str:
    """The change in a sentence: what, by how much, how surely, since when, because of what."""
    span = f"{_change(record.low)} to {_change(record.high)}"
    text = (
        f"{record.series.case}: {record.verdict}, {told(record).title} "
        f"{_change(record.ratio)} (95 %: {span})"
    )
    if record.culprit is not None:
        text += f", since {record.culprit.package} {record.culprit.version}"
    return f"{text} [closed]" if record.status == "closed" else text


def _entry(feed: ET.Element, record: ChangeRecord, base: str) -> None:
    entry = _add(feed, "entry")
    _add(entry, "title", title(record))
    _add(entry, "id", f"urn:servebench:change:{record.id}")
    _add(entry, "updated", _moment(record.when))
    _link(entry, "alternate", f"{base}c/{record.id}/")
    packages = ", ".join(
        f"{change.package} {change.base or 'new'} → {change.head or 'gone'}"
        for change in record.packages
    )
    parts = (
        f"On {record.series.machine}. {record.method}",
        f"Packages that differ: {packages}." if packages else "",
        record.note,
    )
    _add(entry, "summary", " ".join(filter(None, parts)))


def _change(ratio: float) -> str:
    """A ratio as a relative change: `+3.1 %`, `−0.52 %`."""
    sign = "+" if ratio >= 1 else "−"
    return f"{sign}{significant(100 * abs(ratio - 1), 2)} %"


def _add(parent: ET.Element, name: str, text: str = "") -> ET.Element:
    child = ET.SubElement(parent, _name(name))
    if text:
        child.text = _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
    return child


def _link(parent: ET.Element, relation: str, address: str) -> None:
    ET.SubElement(parent, _name("link"), rel=relation, href=address)


def _name(local: str) -> str:
    return f"{{{_ATOM}}}{local}"


def _moment(when: datetime) -> str:
    return f"{when.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
