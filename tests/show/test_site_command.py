"""`observatory site` as people use it."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from duetbench.core.errors import UsageError
from duetbench.host import files
from observatory.cli import app
from site_builds import a_run


def test_the_verb_says_what_it_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files.save(tmp_path / "results", a_run(1))
    common = ["site", "--no-asv", "--results", str(tmp_path / "results")]
    place = str(tmp_path / "made")
    address = ["--url", "https://example.org/bench"]
    done = CliRunner().invoke(app, [*common, "-o", place, *address])
    assert done.exit_code == 0, done.output
    (pages,) = re.findall(rf"{place}: (\d+) pages", done.output.replace("\n", " "))
    assert int(pages) > 5
    feed = Path(place, "changes.atom").read_text()
    assert 'href="https://example.org/bench/changes.atom"' in feed
    assert f"-d {place}" in done.output.replace("\n", " ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--url", "example.org"], "expected an address like"),
        (["--results", "/no/such/folder"], "expected a results folder"),
    ],
)
def test_wrong_usage_is_explained(tmp_path: Path, options: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["site", "-o", str(tmp_path / "made"), *options])
    assert isinstance(done.exception, UsageError)
    assert message in str(done.exception)
    assert not (tmp_path / "made").exists()
