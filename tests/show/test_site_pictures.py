"""The README's pictures, taken from the site."""

from pathlib import Path

import pytest

import browsing
import site_builds
from duetbench.core.errors import SetupError
from duetbench.project.tools import Package
from duetbench.show.site import pictures


@pytest.mark.real
def test_pictures_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    browsing.program()
    monkeypatch.setattr(pictures, "PICTURES", {"front": ""})
    site = site_builds.one_night(tmp_path)
    taken = pictures.take(site, tmp_path / "docs")
    light, dark = (path.read_bytes() for path in taken)
    assert light.startswith(b"\x89PNG")
    assert light != dark
    (style,) = site.glob("static/*/site.css")
    style.unlink()
    with pytest.raises(SetupError, match=r"the site has no static/.*/site\.css; build it again"):
        pictures.take(site, tmp_path / "docs")


def test_without_a_browser_there_is_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = Package("chromium", ("no-such-browser",), "it takes pictures")
    monkeypatch.setattr(pictures, "CHROMIUM", absent)
    with pytest.raises(SetupError, match="apt-get install"):
        pictures.take(tmp_path, tmp_path / "docs")
