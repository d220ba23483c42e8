"""Programs that Go builds: checked against their pin, and no error where they cannot be had."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from servebench import settings, tools
from servebench.errors import SetupError
from servebench.progress import Narrator
from servebench.settings import GoToolSpec
from servebench.toolchain import gotools

SPEC = GoToolSpec(
    module="example.org/tool",
    package="example.org/tool/cmd/tool",
    version="1.2.3",
    sum=f"h1:{'a' * 43}=",
)
# Builds a script instead, and says of what module that is, as `go version -m` does.
GO = r"""#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
case $1 in
install)
  mkdir -p "$GOBIN"
  printf '#!/bin/sh\necho tool\n' > "$GOBIN/tool"
  chmod +x "$GOBIN/tool" ;;
version) printf '%s: go1.26\n\tpath\texample.org/tool/cmd/tool\n\tmod\t{module}\n' "$3" ;;
esac
"""
RIGHT = f"example.org/tool\\tv1.2.3\\t{SPEC.sum}"


@pytest.fixture
def heard() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for programs that is found first, and a cache in which nothing was made."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def install(programs: Path, module: str) -> None:
    (programs / "go").write_text(GO.replace("{module}", module))
    (programs / "go").chmod(0o755)


def ensure(heard: io.StringIO) -> bool | None:
    return gotools.ensure("tool", SPEC, Narrator(Console(file=heard, width=1000)))


def test_it_is_built_once_and_then_only_looked_at(programs: Path, heard: io.StringIO) -> None:
    """In the pinned version, of the pinned package; the second time Go is not asked."""
    install(programs, RIGHT)
    assert ensure(heard) is True
    calls = (programs / "calls").read_text().splitlines()
    assert calls[0] == "install -trimpath example.org/tool/cmd/tool@v1.2.3"
    assert ensure(heard) is False
    assert (programs / "calls").read_text().splitlines() == calls
    program = tools.go_place("tool", SPEC) / "bin" / "tool"
    assert gotools.fault("tool", program.parents[1]) is None
    program.write_text("#!/bin/sh\necho another\n")
    assert gotools.fault("tool", program.parents[1]) == "its program is not the one that was built"


@pytest.mark.parametrize(
    "module",
    [
        RIGHT.replace("v1.2.3", "v1.2.4"),
        RIGHT.replace("aaa", "bbb"),
        RIGHT.replace("example.org", "example.com"),
        "",
    ],
)
def test_another_module_than_the_pinned_one_is_not_kept(
    programs: Path, heard: io.StringIO, module: str
) -> None:
    """Whatever the proxy gave: nothing is there afterwards, and the sentence names both."""
    install(programs, module)
    assert ensure(heard) is None
    assert f"tool: expected module example.org/tool v1.2.3 {SPEC.sum}, found" in heard.getvalue()
    assert not tools.go_place("tool", SPEC).exists()


def test_without_go_it_is_told_and_no_error(programs: Path, heard: io.StringIO) -> None:
    """Tests that need it skip themselves."""
    assert not (programs / "go").exists()
    assert ensure(heard) is None
    assert "tool is not here (go is needed to build tool, and is not on PATH" in heard.getvalue()


def test_those_of_ours_are_declared_and_the_remedy_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pin says what a checksum database says: a module, a version, a sum."""
    declared = settings.load().go_tools
    assert set(declared) == {"act", "actionlint"}
    assert all(spec.package.startswith(spec.module) for spec in declared.values())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(
        SetupError, match=r"act .* has not been made: run `servebench setup --tests`"
    ):
        tools.go_tool("act")
