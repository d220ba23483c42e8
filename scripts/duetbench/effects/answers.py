"""How head's answers to a request differ from base's, but for what differs in one side. Pure."""

import json
import os
import zlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, Final

from duetbench.core.text import short
from duetbench.effects.activity import Reply

_IGNORED: Final = frozenset(
    {
        "age", "content-length", "content-md5", "date", "digest", "etag", "expires",
        "last-modified", "server", "x-powered-by",
    }
)  # fmt: skip
"""Headers that follow from the content, the time or the server."""

_REFUSED, FAILED = 400, 500  # the first status of a request's fault, and of an application's

_NO_TYPE: Final = "none"

_COOKIE: Final = "cookie "  # before its name, which no header's name has

_LONGEST: Final = 60  # characters of a value in a sentence
_UNPACKED: Final = 3_000_000  # bytes of an unpacked body that are compared

Place = tuple[str | int, ...]


def difference(base: Sequence[Reply], head: Sequence[Reply]) -> tuple[str, bool] | None:
    """Say how head's answers to one path differ, and whether that breaks it: type, worse status.

    None if they do not, or if they differ as much within one side.
    """
    sides = [[_fields(reply) for reply in side] for side in (base, head)]
    for name in ("status", "content type"):
        if moved := _moved(name, *sides):
            old, new = moved
            another_type = name == "content type" and old != _NO_TYPE
            broken = another_type or (name == "status" and (new >= FAILED or old < _REFUSED <= new))
            return f"head answers {name} {new} instead of {old}", broken
    if body := _body(base, head):
        return body, False
    for name in sorted({name for side in sides for fields in side for name in fields}):
        if name not in _IGNORED and (moved := _moved(name, *sides)):
            old, new = map(_quote, moved)
            what = name if name.startswith(_COOKIE) else f"header {name}"
            return f"head answers {what} {new} instead of {old}", False
    return None


def _fields(reply: Reply) -> Mapping[str, Any]:
    """List status, content type, and headers and cookies by their names."""
    joined: dict[str, str] = {}
    for header, value in reply["headers"]:
        name, text = _cookie(value) if header == "set-cookie" else (header, value)
        joined[name] = f"{joined[name]}, {text}" if name in joined else text
    kind = joined.get("content-type", "").partition(";")[0] or _NO_TYPE
    return {**joined, "status": reply["status"], "content type": kind}


def _cookie(header: str) -> tuple[str, str]:
    """Return the name of a cookie's field, and its attributes, but for a time and the value."""
    cookie, *attributes = header.split("; ")
    lasting = (text for text in attributes if not text.lower().startswith("expires="))
    return _COOKIE + cookie.partition("=")[0], "; ".join(("…", *lasting))


def _moved(
    name: str, base: Sequence[Mapping[str, Any]], head: Sequence[Mapping[str, Any]]
) -> tuple[Any, Any] | None:
    """Return both values of a field that differs between the sides, but within neither."""
    old, new = ({fields.get(name, "") for fields in side} for side in (base, head))
    return (old.pop(), new.pop()) if len(old) == len(new) == 1 and old != new else None


def _body(base: Sequence[Reply], head: Sequence[Reply]) -> str:
    if {reply["digest"] for reply in base} & {reply["digest"] for reply in head}:
        return ""
    packing = _packing(head[0]) or _packing(base[0])
    try:
        texts = [[*map(_text, side)] for side in (base, head)]
    except (ValueError, zlib.error):
        if not any(_moved(name, base, head) for name in ("digest", "length")):
            return ""
        sizes = f"{base[0]['length']:,} → {head[0]['length']:,}"
        packed = f"head's answer differs, {sizes} bytes ({packing})"
        return packed if packing else f"head answers other bytes, {sizes}"
    try:
        sides, noun = [[*map(json.loads, side)] for side in texts], "rows"
    except ValueError:
        sides, noun = [[text.splitlines() for text in side] for side in texts], "lines"
    return next(
        (f"head answers {place}" for place in _differences(sides[0], sides[1], (), noun)), ""
    )


def _packing(reply: Reply) -> str:
    return str(_fields(reply).get("content-encoding", "")).lower()


def _text(reply: Reply) -> str:
    """Unpack a body; ValueError or zlib.error if that is no text, or not all of it."""
    content, packing = str(reply["body"]).encode("latin-1"), _packing(reply)
    whole = packing in {"", "identity"}
    if packing in {"gzip", "x-gzip", "deflate"}:
        # 47 is for the header of gzip or of zlib, -15 for none, as some send `deflate`.
        unpacker = zlib.decompressobj(47 if content[:1] in {b"x", b"\x1f"} else -15)
        content = unpacker.decompress(content, _UNPACKED)
        whole = unpacker.eof and not unpacker.unused_data
    if reply["cut"] or not whole or b"\0" in content:
        raise ValueError(packing)
    return content.decode().replace(str(reply["checkout"]), ".")


def _differences(
    olds: Sequence[Any], news: Sequence[Any], place: Place, noun: str
) -> Iterator[str]:
    """Yield sentences about places that differ, but vary within neither side."""
    old, new = olds[0], news[0]
    if old is new or old == new or any(len({*map(_shape, side)}) > 1 for side in (olds, news)):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            here = (*place, key)
            if key not in new:
                yield f"without {_path(here)}"
            elif key not in old:
                yield f"with {_path(here)}, which is new"
            else:
                parts = [value[key] for value in olds], [value[key] for value in news]
                yield from _differences(*parts, here, noun)
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            where = f" in {_path(place)}" if place else ""
            yield f"{len(new):,} {noun} instead of {len(old):,}{where}"
        for index, _ in enumerate(zip(old, new, strict=False)):
            parts = [value[index] for value in olds], [value[index] for value in news]
            yield from _differences(*parts, (*place, index), noun)
    else:
        if isinstance(old, str) and isinstance(new, str):
            same = len(os.path.commonprefix([old, new]))  # noqa: RUF071 - these are no paths
            if same > _LONGEST // 2:
                old, new = (f"…{value[same - _LONGEST // 3 :]}" for value in (old, new))
        at = f"line {int(place[-1]) + 1}: " if noun == "lines" and place else f"{_path(place)} = "
        yield f"{at * bool(place)}{_quote(new)} instead of {_quote(old)}"


def _shape(value: Any) -> Hashable:
    """Return what has to be the same in all answers of a side, if their parts are compared."""
    if isinstance(value, dict):
        return frozenset(value)
    return ("rows", len(value)) if isinstance(value, list) else value


def _path(place: Place) -> str:
    """Write a place as JSONPath does: `$.items[3].name`."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)


def _quote(value: Any) -> str:
    return short(json.dumps(value, ensure_ascii=False), _LONGEST)
