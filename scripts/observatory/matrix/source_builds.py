"""CPython and oha from source, for machines that cannot download the programs."""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Final

from pydantic import Field

from duetbench.app.declarations import Digest, OhaSpec
from duetbench.core.errors import SetupError
from duetbench.core.model import Frozen
from duetbench.host import cache, command, paths
from duetbench.host.command import Tick
from duetbench.host.console import Narrator

_HEADERS: Final = "#include <openssl/ssl.h>\n#include <zlib.h>\n#include <ffi.h>\n"
"""What the modules need that servers need; others (sqlite3, bz2, lzma) may be missing."""

_RUST: Final = "1.88"  # the oldest that compiles oha, as its crate says (`rust-version`)
_DOWNLOAD: Final = "/usr/lib/apt/apt-helper"  # by apt's proxies and certificates

_NO_OUTER_MAKE: Final = {"MAKEFLAGS": "", "MFLAGS": ""}
"""Flags and the job server of an outer make do not apply here."""


class SourceBuild(Frozen):
    """How to build an interpreter if no prebuilt one is available."""

    archive: str = Field(description="Path of the source archive below a Debian mirror's base.")
    sha256: Digest
    cflags: str
    configure: tuple[str, ...] = Field(description="Options of configure, the same for all builds.")

    def build(self, draft: Path, home: Path, log: Path, tick: Tick, *, free_threaded: bool) -> None:
        """Build an interpreter in `draft`, which is moved to `home` afterwards.

        Raises SetupError if the source is not available, or the build fails.
        """
        tree, work, root = draft / "source", draft / "build", draft / "root"
        with tarfile.open(source_archive(self, tick)) as tar:
            tar.extractall(tree, filter="data")
        (configure,) = tree.glob("*/configure")
        work.mkdir()
        options = [*self.configure, *(["--disable-gil"] if free_threaded else [])]
        env = {"CFLAGS": self.cflags, **_NO_OUTER_MAKE}
        steps: list[list[str | Path]] = [
            [configure, "-q", f"--prefix={home}", *options],
            ["make", f"-j{len(os.sched_getaffinity(0))}"],
            ["make", "install", f"DESTDIR={root}"],
        ]
        for argv in steps:
            command.run(argv, what=f"building {home.name}", log=log, tick=tick, cwd=work, env=env)
        for finished in (tree, work):
            shutil.rmtree(finished)
        # It was configured for its home, so every path in it is right once it is moved there.
        for entry in (root / home.relative_to("/")).iterdir():
            entry.rename(draft / entry.name)
        shutil.rmtree(root)


def require_compiler() -> None:
    """Refuse to begin without what CPython's build needs; raises SetupError."""
    check = ["cc", "-fsyntax-only", "-x", "c", "-"]
    tools = all(map(shutil.which, ("make", "cc")))
    if tools and not subprocess.run(check, input=_HEADERS, text=True, check=False).returncode:
        return
    raise SetupError(
        "building from source needs make, a C compiler, and the headers of OpenSSL, zlib and "
        "libffi: apt-get install build-essential libssl-dev zlib1g-dev libffi-dev"
    )


def build_oha(spec: OhaSpec, folder: Path, narrator: Narrator) -> None:
    """Build the load generator into a folder; raises SetupError."""
    if not all(map(shutil.which, ("cc", "cargo"))):
        raise SetupError(f"a C compiler and cargo are needed: install Rust {_RUST} with rustup")
    # Not in `folder`: cargo continues where a killed build ended. It has its own lock.
    target = paths.cache_dir() / "building" / f"oha-{spec.version}"
    # Default features: without any TLS it does not compile, and the system's OpenSSL would make it
    # another program on every machine.
    argv = ["cargo", "install", "oha", "--version", spec.version, "--locked", "--no-track"]
    # Half the build time of the release profile, as the generator itself is not measured.
    for setting in ("lto=false", "codegen-units=16"):
        argv += ["--config", f"profile.release.{setting}"]
    env = {"CARGO_TARGET_DIR": str(target), "CARGO_TERM_COLOR": "never", **_NO_OUTER_MAKE}
    why = "building the load generator, about 3 min on 2 cores"
    with narrator.step(f"oha {spec.version}", why) as tick:
        what, log = f"building oha {spec.version}", command.new_log("oha")
        command.run([*argv, "--root", str(folder)], what=what, log=log, tick=tick, env=env)
    # cargo checks the index's checksum; ours is pinned.
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    for crate in home.glob(f"registry/cache/*/oha-{spec.version}.crate"):
        if (digest := cache.sha256(crate)) != spec.sha256:
            raise SetupError(f"{crate}: expected SHA-256 {spec.sha256}, found {digest}: remove it")
    shutil.rmtree(target, ignore_errors=True)


def source_archive(recipe: SourceBuild, tick: Tick) -> Path:
    """Return CPython's source archive, which apt downloads once; its SHA-256 is checked.

    Raises SetupError if no mirror has it, and nobody has put a copy into the cache.
    """
    archive = paths.cache_dir() / "downloads" / Path(recipe.archive).name
    if archive.is_file() and cache.sha256(archive) == recipe.sha256:
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    partial, log = archive.with_name(f"{archive.name}.{os.getpid()}"), command.new_log("source")
    reason = "apt-get names no mirror"
    for base in mirrors():
        argv = [_DOWNLOAD, "download-file", f"{base.rstrip('/')}/{recipe.archive}", str(partial)]
        argv += [f"SHA256:{recipe.sha256}"]
        try:
            command.run(argv, what="downloading CPython's source", log=log, tick=tick)
            return partial.replace(archive)
        except SetupError as error:
            reason = str(error)
    raise SetupError(
        f"CPython's source archive is not available: connect to the network, or put a copy "
        f"(SHA-256 {recipe.sha256}) at {archive}. {reason}"
    )


def mirrors() -> tuple[str, ...]:
    """List the base addresses of the mirrors in this machine's apt configuration; may be empty."""
    if (apt := shutil.which("apt-get")) is None:
        return ()
    argv = [apt, "indextargets", "--format", "$(REPO_URI)"]
    answer = subprocess.run(argv, capture_output=True, text=True, check=False)
    bases = dict.fromkeys(answer.stdout.split())
    return tuple(base for base in bases if base.startswith(("http://", "https://")))
