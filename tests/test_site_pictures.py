"""The README's pictures: taken from the site, and known to be old when the site has moved on."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import browsing
import site_builds
from servebench.cli import app
from servebench.errors import SetupError
from servebench.site import pictures
from servebench.toolchain.packages import Package


def test_the_pictures_in_docs_show_the_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the results in this checkout. If this fails: `servebench dev pictures`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    done = CliRunner().invoke(app, ["dev", "pictures", "--check"])
    assert done.exit_code == 0, done.output


@pytest.mark.real
def test_pictures_are_taken_and_grow_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In light and dark, each with the files that it shows; one byte in one of them is enough."""
    browsing.program()
    monkeypatch.setattr(pictures, "PICTURES", pictures.PICTURES[:1])
    site = site_builds.one_night(tmp_path)
    docs = tmp_path / "docs"
    taken = pictures.take(site, docs)
    for path in taken:
        assert path.read_bytes().startswith(b"\x89PNG")
    light, dark = taken
    assert light.read_bytes() != dark.read_bytes()
    assert pictures.stale(site, docs) == ()
    (static,) = site.glob("static/*")
    (static / "js" / "compare.js").write_text("// the first page does not have it")
    page = site / "index.html"
    moved = page.read_text("utf-8").replace(f"static/{static.name}/", "static/0123456789/")
    page.write_text(moved, "utf-8")
    static.rename(static.with_name("0123456789"))
    assert pictures.stale(site, docs) == ()
    (style,) = site.glob("static/*/site.css")
    style.write_bytes(style.read_bytes() + b"\n")
    (told,) = pictures.stale(site, docs)
    assert "front shows files that have changed (static/site.css)" in told
    assert "servebench dev pictures" in told
    dark.unlink()
    assert f"{dark} is missing" in pictures.stale(site, docs)[0]


def test_without_pictures_that_is_told(tmp_path: Path) -> None:
    """And a view that is another one by now has none."""
    (missing,) = pictures.stale(tmp_path, tmp_path)
    assert "pictures.json is missing or damaged" in missing
    (tmp_path / "pictures.json").write_text('{"front": {"address": "elsewhere/"}}')
    assert "front was taken of another view" in " ".join(pictures.stale(tmp_path, tmp_path))


def test_without_a_browser_there_is_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sentence, not a traceback."""
    absent = Package("chromium", ("no-such-browser",), "it takes pictures")
    monkeypatch.setattr(pictures, "CHROMIUM", absent)
    with pytest.raises(SetupError, match="apt-get install"):
        pictures.take(tmp_path, tmp_path / "docs")
