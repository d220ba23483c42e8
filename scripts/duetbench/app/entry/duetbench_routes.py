"""The paths that an application answers to GET, as its framework lists them: `/items/{id}`.

Of Django, Flask, Quart, Starlette, FastAPI and what resembles them. Standard library only: of a
framework it uses what the application has imported.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Any

_INNER = ("__self__", "app", "application", "wsgi_app", "asgi_app")
"""Attributes in which middleware, or a bound `app.wsgi_app`, keeps the application."""

_DEEPEST = 9


def routes(application: Any) -> list[str]:
    """Return the paths, each once, in the framework's order; empty if it cannot be asked."""
    for _ in range(_DEEPEST):
        if paths := dict.fromkeys(_listed(application)):
            return [*paths]
        inner = (getattr(application, name, None) for name in _INNER)
        application = next(filter(None, inner), None)
    return []


def _listed(application: Any) -> Iterator[str]:
    if type(application).__module__.startswith("django."):
        yield from _of_django(sys.modules["django.urls"].get_resolver().url_patterns)
    elif (rules := getattr(application, "url_map", None)) is not None:  # Flask, Quart
        for rule in rules.iter_rules():
            if "GET" in (rule.methods or ()) and not rule.websocket:
                yield rule.rule
    else:
        yield from _of_routes(getattr(application, "routes", ()))


def _of_routes(table: Iterable[Any], prefix: str = "") -> Iterator[str]:
    # FastAPI keeps included routers as they are.
    flatten = getattr(sys.modules.get("fastapi.routing"), "iter_route_contexts", iter)
    for route in flatten(table):
        own, path = getattr(route, "original_route", route), prefix + (route.path or "")
        if (mounted := getattr(own, "routes", None)) is not None:
            yield from _of_routes(mounted, path)
        elif "WebSocket" not in type(own).__name__ and "GET" in (
            getattr(route, "methods", None) or ["GET"]
        ):
            yield path


def _of_django(patterns: Iterable[Any], prefix: str = "/") -> Iterator[str]:
    for pattern in patterns:
        path = prefix + str(pattern.pattern).removeprefix("^").removesuffix("$")
        if hasattr(pattern, "url_patterns"):
            yield from _of_django(pattern.url_patterns, path)
        else:
            yield path
