"""How head's answers to a request differ from base's, but for what differs in one side. Pure."""

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from duetbench.core.text import short
from duetbench.measure.effects.observation import Reply

_IGNORED: Final = frozenset(
    {
        "age", "content-length", "content-md5", "date", "digest", "etag", "expires",
        "last-modified", "server", "set-cookie", "x-powered-by",
    }
)  # fmt: skip
"""Headers that follow from the content, the time or the server."""

_LONGEST: Final = 60  # characters of a value in a sentence

Place = tuple[str | int, ...]


def difference(base: Sequence[Reply], head: Sequence[Reply]) -> tuple[str, bool] | None:
    """Say how head's answers to one path differ, and whether that breaks it: status or type.

    None if they do not, or if they differ as much within one side.
    """
    for name, of in (("status", _status), ("content type", _content_type)):
        old, new = ({of(reply) for reply in side} for side in (base, head))
        if len(old) == len(new) == 1 and old != new:
            return f"head answers {name} {new.pop()} instead of {old.pop()}", True
    if body := _body(base, head):
        return f"head answers {body}", False
    if header := _header(base, head):
        return f"head answers {header}", False
    return None


def _status(reply: Reply) -> object:
    return reply["status"]


def _content_type(reply: Reply) -> str:
    return _headers(reply).get("content-type", "").partition(";")[0] or "none"


def _headers(reply: Reply) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in reply["headers"]:
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    cookies = sorted(v.partition("=")[0] for n, v in reply["headers"] if n == "set-cookie")
    return joined | {"cookies": " ".join(cookies)}


def _header(base: Sequence[Reply], head: Sequence[Reply]) -> str:
    sides = [[_headers(reply) for reply in side] for side in (base, head)]
    for name in sorted({name for side in sides for headers in side for name in headers}):
        old, new = ({headers.get(name, "") for headers in side} for side in sides)
        if name not in _IGNORED and len(old) == len(new) == 1 and old != new:
            return f"header {name} {_quote(new.pop())} instead of {_quote(old.pop())}"
    return ""


def _body(base: Sequence[Reply], head: Sequence[Reply]) -> str:
    digests = [{reply["digest"] for reply in side} for side in (base, head)]
    if digests[0] & digests[1]:
        return ""
    if any(reply["cut"] for reply in (*base, *head)):
        lengths = [{reply["length"] for reply in side} for side in (base, head)]
        if len(lengths[0]) == len(lengths[1]) == 1 and lengths[0] != lengths[1]:
            return f"{lengths[1].pop():,} bytes instead of {lengths[0].pop():,}"
        return ""
    try:
        old, new = ([json.loads(reply["body"]) for reply in side] for side in (base, head))
    except ValueError:
        old, new = ([reply["body"].splitlines() for reply in side] for side in (base, head))
        return _first(old, new, "lines")
    return _first(old, new, "rows")


def _first(old: Sequence[Any], new: Sequence[Any], noun: str) -> str:
    varying = {*_varying(old, ()), *_varying(new, ())}
    return next(_differences(old[0], new[0], (), varying, noun), "")


def _varying(values: Sequence[Any], place: Place) -> Iterator[Place]:
    """Yield the places at which values of one side differ from each other."""
    first = values[0]
    if all(value == first for value in values):
        return
    if all(isinstance(value, dict) and value.keys() == first.keys() for value in values):
        for key in first:
            yield from _varying([value[key] for value in values], (*place, key))
    elif all(isinstance(value, list) and len(value) == len(first) for value in values):
        for index in range(len(first)):
            yield from _varying([value[index] for value in values], (*place, index))
    else:
        yield place


def _differences(
    old: Any, new: Any, place: Place, varying: Collection[Place], noun: str
) -> Iterator[str]:
    """Yield sentences about places that differ, the first one first."""
    if place in varying or old == new:
        return
    where = f" in {_path(place)}" if place else ""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in (*old, *(key for key in new if key not in old)):
            name = _path((*place, key))
            if key not in new:
                yield f"without {name}"
            elif key not in old:
                yield f"with {name}, which is new"
            else:
                yield from _differences(old[key], new[key], (*place, key), varying, noun)
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{len(new):,} {noun} instead of {len(old):,}{where}"
        for index, pair in enumerate(zip(old, new, strict=False)):
            yield from _differences(*pair, (*place, index), varying, noun)
    else:
        at = f"line {int(place[-1]) + 1}: " if noun == "lines" and place else ""
        at = at or (f"{_path(place)} = " if place else "")
        yield f"{at}{_quote(new)} instead of {_quote(old)}"


def _path(place: Place) -> str:
    """Write a place as JSONPath does: `$.items[3].name`."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)


def _quote(value: Any) -> str:
    return short(json.dumps(value, ensure_ascii=False), _LONGEST)
