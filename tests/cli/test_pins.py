"""Renewal of what is pinned with checksums: each version moves together with all of its own."""

import hashlib
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from bare import Programs
from bench import Bench
from duetbench.cli import pins
from duetbench.project import settings

ROOT = Path(__file__).parents[2]
NEW = {"oha": "1.999.0", "CPython": "3.14.99"}
ARCHIVE = f"pool/main/p/python3.14/python3.14_{NEW['CPython']}.orig.tar.xz"
# What installs each of them answers with a newer release.
CARGO = f"printf 'oha #cli\\nversion: {NEW['oha']}\\nlicense: MIT\\n'"
APT = f"""case "$*" in
*indextargets*) echo http://127.0.0.1:9/debian/ ;;
*print-uris*) echo "'http://127.0.0.1:9/debian/{ARCHIVE}' x.orig.tar.xz 24 SHA512:cafe" ;;
*download-only*) printf 'the new source' > {Path(ARCHIVE).name} ;;
esac"""


@pytest.fixture
def pinned(
    tmp_path: Path,
    bench: Bench,
    programs: Programs,
    httpserver: HTTPServer,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[Bench, Path]:
    """The command line, and a copy of our own pins; cargo and apt are stand-ins."""
    file = tmp_path / "pinned" / "pyproject.toml"
    file.parent.mkdir()
    file.write_text((ROOT / "pyproject.toml").read_text("utf-8"), "utf-8")
    monkeypatch.setenv("DUETBENCH_ROOT", str(file.parent))
    crate = tmp_path / "cargo" / "registry" / "cache" / "index" / f"oha-{NEW['oha']}.crate"
    crate.parent.mkdir(parents=True)
    crate.write_bytes(b"the new crate")
    monkeypatch.setenv("CARGO_HOME", str(tmp_path / "cargo"))
    programs.write("cargo", CARGO)
    programs.write("apt-get", APT)
    monkeypatch.setattr(pins, "API", httpserver.url_for("").rstrip("/"))
    return bench, file


def answer(httpserver: HTTPServer, digests: dict[str, str]) -> None:
    """What GitHub says of the new release of oha."""
    assets = [{"name": name, "digest": f"sha256:{one}"} for name, one in digests.items()]
    path = f"/repos/hatoo/oha/releases/tags/v{NEW['oha']}"
    httpserver.expect_request(path).respond_with_json({"assets": assets})


def test_every_pin_is_renewed_with_its_checksums(
    pinned: tuple[Bench, Path], httpserver: HTTPServer
) -> None:
    """And nothing else of the file; a second time nothing is newer."""
    bench, file = pinned
    programs = {"oha-linux-amd64": "a" * 64, "oha-linux-arm64": "b" * 64}
    answer(httpserver, {**programs, "oha-windows-amd64.exe": "d" * 64})
    before = file.read_text("utf-8")
    done = bench("dev", "pins")
    assert (done.code, done.err) == (0, "")
    after = file.read_text("utf-8")
    changed = [
        pair for pair in zip(before.splitlines(), after.splitlines(), strict=True)
        if pair[0] != pair[1]
    ]  # fmt: skip
    assert len(changed) == 2 + 3 + 4  # interpreters, their archive, oha
    settings.load.cache_clear()
    found = settings.load(file.parent)
    assert {spec.version for spec in found.interpreters.values()} == {NEW["CPython"]}
    ((version, build),) = found.source_build.items()
    digest = hashlib.sha256(b"the new source").hexdigest()
    assert (version, build.archive, build.sha256) == (NEW["CPython"], ARCHIVE, digest)
    crate = hashlib.sha256(b"the new crate").hexdigest()
    assert (found.oha.version, found.oha.sha256) == (NEW["oha"], crate)
    assert found.oha.prebuilt == programs
    assert bench("dev", "pins").out == "oha: nothing newer\nCPython: nothing newer\n"
