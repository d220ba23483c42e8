"""The paths that an application answers to GET, as its framework lists them: `/items/{id}`.

Standard library only: of a framework it uses what the application has imported.
"""

import importlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

_INNER = ("__self__", "app", "application", "wsgi_app", "asgi_app", "other_asgi_app")
"""Attributes in which middleware, or a bound `app.wsgi_app`, keeps the application."""

_DEEPEST = 9


def routes(application: Any) -> list[str]:
    """Return the paths, each once, in the framework's order; empty if it cannot be asked."""
    for _ in range(_DEEPEST):
        if paths := dict.fromkeys(_listed(application)):
            return [*paths]
        inner = (getattr(application, name, None) for name in _INNER)
        of_channels = getattr(application, "application_mapping", {}).get("http")
        application = next(filter(None, inner), of_channels)
    return []


def _listed(application: Any) -> Iterator[str]:
    kind = type(application).__module__.partition(".")[0]
    if kind == "django":
        yield from _of_django(sys.modules["django.urls"].get_resolver().url_patterns)
    elif kind == "falcon":
        found = importlib.import_module("falcon.inspect").inspect_routes(application)
        yield from (route.path for route in found)
    elif (rules := getattr(application, "url_map", None)) is not None:  # Flask, Quart
        for rule in rules.iter_rules():
            if "GET" in (rule.methods or ()) and not rule.websocket:
                yield rule.rule
    else:
        places = application, getattr(application, "router", None)
        table: Any = next(filter(None, (getattr(place, "routes", None) for place in places)), ())
        yield from _of_routes(table.get(b"GET", ()) if isinstance(table, dict) else table)


def _of_routes(table: Iterable[Any], prefix: str = "") -> Iterator[str]:
    """List routes of Starlette, FastAPI, Litestar, BlackSheep, Bottle, and what resembles them."""
    # FastAPI keeps included routers as they are.
    flatten = getattr(sys.modules.get("fastapi.routing"), "iter_route_contexts", iter)
    for route in flatten(table):
        own = getattr(route, "original_route", route)
        names = ("path", "rule", "pattern")
        text = next(filter(None, (getattr(route, name, None) for name in names)), "")
        path = text.decode() if isinstance(text, bytes) else str(text)
        path = prefix + ("" if path.startswith("/") or not path else "/") + path
        if (mounted := getattr(own, "routes", None)) is not None:
            yield from _of_routes(mounted, path)
        elif "WebSocket" not in type(own).__name__ and "GET" in (
            getattr(route, "methods", None) or [getattr(route, "method", None) or "GET"]
        ):
            yield path


def _of_django(patterns: Iterable[Any], prefix: str = "/") -> Iterator[str]:
    for pattern in patterns:
        path = prefix + str(pattern.pattern).removeprefix("^").removesuffix("$")
        if hasattr(pattern, "url_patterns"):
            yield from _of_django(pattern.url_patterns, path)
        else:
            yield path
