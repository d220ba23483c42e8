"""A case in words: endpoint, interpreter, stack, server, load. Pure."""

from __future__ import annotations

from servebench.core.model import Case, Load, LoadModel
from servebench.series.columns import RunHeader
from servebench.site.pages import words


def declared(case: Case) -> list[tuple[str, str]]:
    """What a case's declaration says."""
    endpoint = case.endpoint
    pairs = [
        ("endpoint", f"{endpoint.path} ({endpoint.interface.upper()}, {endpoint.app})"),
        ("takes at least", words.figure(endpoint.floor, "service_min") if endpoint.floor else ""),
        ("Python", case.python),
        ("stack", case.stack),
        ("server", f"{case.server}, event loop {case.loop}"),
        ("workers", str(case.workers)),
        ("blocking threads per worker", str(case.threads or "")),
        ("load", _load(case.load)),
        ("cores", "server and generator apart" if case.cores == "split" else "shared by both"),
        ("ceiling", case.ceiling or ""),
        ("environment", ", ".join(f"{name}={text}" for name, text in case.env.items())),
    ]
    return [(name, text) for name, text in pairs if text]


def _load(load: Load) -> str:
    connections = words.many(load.connections, "connection")
    timing = f"{load.duration:g} s, timeout {load.timeout:g} s"
    if load.model is LoadModel.CLOSED:
        return f"closed loop, {connections}, {timing}"
    return f"{load.model.value}, {load.rate:g} requests/s, at most {connections}, {timing}"


def recorded(header: RunHeader, case: str) -> list[tuple[str, str]]:
    """What a night says of a case whose declaration is in no run file here."""
    place = header.cases.index(case)
    return [("Python", header.pythons[place]), ("stack", header.stack_of[place])]
