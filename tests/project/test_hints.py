"""What is said of an application that does not work: what to do, of what a command takes."""

from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from duetbench.app import hints
from duetbench.app.testbed import SideCase
from goldens import assert_said
from repos import write


def advice(error: str, root: Path, source: str = "x", given: Collection[str] = ()) -> str:
    """What is said of a traceback with this error, or of an answer that was found."""
    traceback = f'Traceback (most recent call last):\n  File "/srv/a.py", line 1, in f\n{error}\n'
    printed = error if error.startswith("found ") else traceback
    routes = ["/items/{id}", "/health"] if "/itemz" in error else []
    endpoint = SimpleNamespace(app="shop.main:app", path="/itemz/7?a")
    side = SimpleNamespace(
        case=SimpleNamespace(endpoint=endpoint),
        testbed=SimpleNamespace(subject=SimpleNamespace(source=source)),
        interpreter=SimpleNamespace(version="3.14.7"),
        folders=(root, root.parent),
        environment=lambda: given,
    )
    return hints.advise(cast(SideCase, side), printed, routes)


def test_an_error_says_what_to_do(tmp_path: Path) -> None:
    """Of a variable with the options that set it; then beside a file that may have it."""
    write(tmp_path, "shop/.env.example", "SHOP_URL=private\nexport SHOP_ADDRESS='x y'\nKEY=\n")

    def say(error: str) -> str:
        alone, beside = (advice(error, tmp_path / name) for name in ("none", "shop"))
        return alone if alone == beside else f"{alone} | {beside}"

    assert_said("hints", say)


def test_what_is_around_an_error_counts(tmp_path: Path) -> None:
    alone = advice("No module named 'six'", tmp_path, source="nowhere")
    assert alone.startswith("No file lists its packages, such as requirements.txt")
    assert advice('Environment variable "URL" is no URL', tmp_path, given=["URL"]) == ""
