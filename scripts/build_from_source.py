#!/usr/bin/env python3
"""Build CPython or oha from source, if `observatory setup` cannot download it.

It starts this script of a checkout as

    build_from_source.py check REQUEST           prints what is missing here, one thing a line
    build_from_source.py build REQUEST FOLDER    installs the program into FOLDER/bin

REQUEST is a JSON object: `program` (cpython or oha), its `version`, the `sha256` of its source, and
`cache`, a folder for downloads and unfinished builds. That of CPython also has `name`, `home` (the
place to which FOLDER is moved afterwards), `free_threaded`, `jit`, and the recipe: `archive`,
`cflags`, `configure`, `llvm`. The script ends with a sentence if something fails. It needs only
Python's standard library.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ARCHIVE = "DUETBENCH_CPYTHON_ARCHIVE"
"""Variable with the path or address of a source archive to use instead of the mirror's, with the
same checksum."""

HEADERS = {
    "openssl/ssl.h": ("ssl", "libssl-dev"),
    "zlib.h": ("zlib", "zlib1g-dev"),
    "ffi.h": ("ctypes", "libffi-dev"),
}
"""Header → the module that needs it, and its package. The servers need these modules; others
(sqlite3, bz2, lzma) may be missing."""

LLVM_TOOLS = ("clang", "llvm-readobj", "llvm-objdump", "llvm-dwarfdump")
RUST = "1.88"
"""The oldest Rust that compiles oha, as its crate says (`rust-version`)."""
COMPILER = "install it (on Debian and its relatives: apt-get install build-essential)"
TIMEOUT_S = 30

Request = dict[str, Any]


def check(request: Request) -> Iterator[str]:
    """List what is missing to build a program, before anything is downloaded."""
    yield from missing("cc", "to compile what has to be built", COMPILER)
    if request["program"] == "oha":
        remedy = f"install Rust {RUST} or newer with rustup (a distribution's may be older)"
        yield from missing("cargo", "to build the load generator oha", remedy)
    else:
        yield from no_headers(request)
        yield from missing("make", "to build CPython", COMPILER)


def missing(tool: str, why: str, remedy: str) -> Iterator[str]:
    """Say that a tool is not on PATH, why it is needed and what to do."""
    if not shutil.which(tool):
        yield f"{tool} is needed {why}, but is not on PATH: {remedy}"


def no_headers(request: Request) -> Iterator[str]:
    """Report headers that CPython's modules need, and tools that its JIT needs."""
    compile_ = ["cc", "-fsyntax-only", "-x", "c", "-"]
    lacking = {
        package: module
        for header, (module, package) in HEADERS.items()
        if shutil.which("cc")
        and subprocess.run(
            compile_, input=f"#include <{header}>\n".encode(), capture_output=True, check=False
        ).returncode
    }
    if lacking:
        yield (
            f"the C headers for Python's {', '.join(lacking.values())} are missing: install "
            f"{' '.join(lacking)} (Debian's names)"
        )
    if request["jit"] and llvm(request) is None:
        best = request["llvm"][0]
        yield (
            f"the JIT of {request['name']} is built by {' and '.join(LLVM_TOOLS)} of LLVM "
            f"{' or '.join(request['llvm'])}, which are missing: install clang-{best} llvm-{best}, "
            "or those of another of these versions (Debian's names)"
        )


def llvm(request: Request) -> "str | None":
    """Return the first version of LLVM that is here, to build the JIT; None: none is."""
    whole = (v for v in request["llvm"] if all(shutil.which(f"{tool}-{v}") for tool in LLVM_TOOLS))
    return next(whole, None)


def build(request: Request, folder: Path) -> None:
    """Fill the folder; ends the script with a sentence if something fails."""
    (build_oha if request["program"] == "oha" else build_cpython)(request, folder)


def build_oha(request: Request, folder: Path) -> None:
    """Build oha from its registry, and check its crate's SHA-256."""
    version = request["version"]
    # Not in `folder`: cargo continues where a killed build ended. It has its own lock.
    target = Path(request["cache"]) / "building" / f"oha-{version}"
    # Default features: without any TLS it does not compile, and the system's OpenSSL would make it
    # another program on every machine.
    argv = ["cargo", "install", "oha", "--version", version, "--locked", "--no-track"]
    # Half the build time of the release profile, as the generator itself is not measured.
    argv += [
        "--config",
        "profile.release.lto=false",
        "--config",
        "profile.release.codegen-units=16",
    ]
    # The job server of an outer make does not apply here.
    env = {"CARGO_TARGET_DIR": str(target), "CARGO_TERM_COLOR": "never", "MAKEFLAGS": ""}
    run([*argv, "--root", folder], env)
    require_crate(version, request["sha256"])
    shutil.rmtree(target, ignore_errors=True)


def require_crate(version: str, expected: str) -> None:
    """Check the crate that cargo used against the pinned checksum (cargo checks the index's)."""
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    for crate in home.glob(f"registry/cache/*/oha-{version}.crate"):
        if (digest := sha256(crate)) != expected:
            fail(f"{crate}: expected SHA-256 {expected}, found {digest}: remove it")


def build_cpython(request: Request, folder: Path) -> None:
    """Build an interpreter in `folder`, which will be moved to its home."""
    archive = source_archive(request)
    home = Path(request["home"])
    tree, work, root = folder / "source", folder / "build", folder / "root"
    with tarfile.open(archive) as tar:
        tar.extractall(tree, filter="data")
    (configure,) = tree.glob("*/configure")
    work.mkdir()
    options = [*request["configure"], *(["--disable-gil"] if request["free_threaded"] else [])]
    # Flags of an outer make do not apply here.
    env = {"CFLAGS": request["cflags"], "MAKEFLAGS": "", "MFLAGS": ""}
    if request["jit"]:  # a Python generates it: ours, since a script on PATH may start none
        options.append("--enable-experimental-jit=yes-off")  # like prebuilt ones
        env |= {"LLVM_VERSION": llvm(request) or "", "PYTHON_FOR_REGEN": sys.executable}
    run([configure, "-q", f"--prefix={home}", *options], env, work)
    run(["make", f"-j{len(os.sched_getaffinity(0))}"], env, work)
    run(["make", "install", f"DESTDIR={root}"], env, work)
    for finished in (tree, work):
        shutil.rmtree(finished)
    # It was configured for its home, so every path in it is right once it is moved there.
    for entry in (root / home.relative_to("/")).iterdir():
        entry.rename(folder / entry.name)
    shutil.rmtree(root)


def source_archive(request: Request) -> Path:
    """Return CPython's source archive, which is downloaded once; its SHA-256 is checked."""
    downloads, expected = Path(request["cache"]) / "downloads", request["sha256"]
    archive = downloads / Path(request["archive"]).name
    downloads.mkdir(parents=True, exist_ok=True)
    with (downloads / f".{archive.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if archive.is_file() and sha256(archive) == expected:
            return archive
        troubles, partial = [], archive.with_name(f"{archive.name}.part")  # the lock protects it
        copy = os.environ.get(ARCHIVE)
        sources = [f"{base.rstrip('/')}/{request['archive']}" for base in mirrors()]
        for source in [copy] if copy else sources:
            try:
                say(f"fetching {source}")
                fetch(source, partial)
                if (digest := sha256(partial)) == expected:
                    return partial.replace(archive)
                troubles.append(f"{source}: expected SHA-256 {expected}, found {digest}")
            except urllib.error.HTTPError as error:
                troubles.append(f"{source}: the server answered {error.code}")
            except urllib.error.URLError as error:
                troubles.append(f"{source}: no connection ({error.reason})")
            except OSError as error:
                troubles.append(f"{source}: {error.strerror or error}")
            finally:
                partial.unlink(missing_ok=True)
    attempts = "; ".join(troubles) or "this machine's apt names no mirror"
    return fail(
        f"CPython's source archive {archive.name} is not available: connect to the network, or set "
        f"{ARCHIVE} to a copy (path or address; SHA-256 {expected}). {attempts}"
    )


def fetch(source: str, partial: Path) -> None:
    """Copy or download a file; raises OSError."""
    if urlsplit(source).scheme not in {"http", "https"}:
        shutil.copyfile(Path(source.removeprefix("file://")).expanduser(), partial)
        return
    with (
        urllib.request.urlopen(source, timeout=TIMEOUT_S) as answer,  # noqa: S310 - checked above
        partial.open("wb") as file,
    ):
        shutil.copyfileobj(answer, file)


def mirrors() -> "tuple[str, ...]":
    """List the base addresses of the mirrors in this machine's apt configuration; may be empty."""
    apt = shutil.which("apt-get")
    if apt is None:
        return ()
    words = [apt, "indextargets", "--format", "$(REPO_URI)"]
    answer = subprocess.run(words, capture_output=True, text=True, check=False)
    bases = dict.fromkeys(line.strip() for line in answer.stdout.splitlines())
    usable = [base for base in bases if urlsplit(base).scheme in {"http", "https", "file"}]
    # Security archives hold few packages; asking them last saves failing requests.
    return tuple(sorted(usable, key=lambda base: "security" in base))


def run(argv: "list[str | Path]", env: "dict[str, str]", cwd: "Path | None" = None) -> None:
    """Run a tool, whose output is ours; ends the script if it fails."""
    # The kernel ends the tool if we are killed.
    guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
    words = [*guard, *map(str, argv)]
    code = subprocess.run(words, env={**os.environ, **env}, cwd=cwd, check=False).returncode
    if code:
        fail(f"{Path(argv[0]).name} failed (exit code {code})")


def sha256(file: Path) -> str:
    """SHA-256 of a file, as 64 hex digits."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def say(sentence: str) -> None:
    """Print a sentence without buffering, also into a log."""
    sys.stdout.write(sentence + "\n")
    sys.stdout.flush()


def fail(reason: str) -> Any:
    """End the script with a sentence."""
    sys.exit(f"error: {reason}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["check", request]:
            for sentence in check(json.loads(request)):
                say(sentence)
        case ["build", request, folder]:
            build(json.loads(request), Path(folder))
        case _:
            fail("expected `check REQUEST` or `build REQUEST FOLDER`")
