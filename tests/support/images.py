"""The container image: built by an engine, or as a folder in which its Dockerfile is followed."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from repos import PROJECT

_NETWORK: Final = ("HTTP", "NO_PROXY", "PIP_CERT", "PIP_INDEX", "SSL_", "UV_", "http", "no_proxy")
"""How the names of variables begin with which this machine reaches its registries."""

_FILES: Final = (
    *("etc/apt", "etc/hosts", "etc/pip.conf", "etc/resolv.conf", "etc/ssl/certs"),
    "usr/local/share/ca-certificates",
)
"""What a machine's administrator has set up for that."""

_KERNEL: Final = {"proc": "proc", "sysfs": "sys"}
"""File systems that every container has, and where."""


class Image(Protocol):
    """What can be run in a repository."""

    def __call__(self, repository: Path, *words: str) -> subprocess.CompletedProcess[str]:
        """Run duetbench in a container of the image that sees the repository."""


def engine(program: str) -> Image:
    """Return the image that docker, or a program with its options, has built."""

    def run(repository: Path, *words: str) -> subprocess.CompletedProcess[str]:
        volume = f"{repository}:/repo"
        return _done([program, "run", "--rm", "--volume", volume, "duetbench", *words])

    return run


@contextmanager
def followed(root: Path, dist: Path) -> Iterator[Image]:
    """Follow the Dockerfile in a new Debian system, as root, and without a container's walls.

    The base has Debian's packages only, and the load generator, if this machine has built one.
    """
    address = _done(["apt-get", "indextargets", "--format", "$(SITE) $(CODENAME)"]).stdout.split()
    base = ["debootstrap", "--variant=minbase", address[1], str(root), address[0]]
    assert (done := _done(base)).returncode == 0, done.stdout[-2000:]
    for name in _FILES:
        source, target = Path("/", name), root / name
        if source.is_dir():
            shutil.copytree(source, target, symlinks=False, dirs_exist_ok=True)
        elif source.exists():
            shutil.copy(source, target)
    if oha := shutil.which("oha"):
        shutil.copy(oha, root / "usr" / "local" / "bin")
    mounted = []
    try:
        for kind, place in _KERNEL.items():
            subprocess.run(["mount", "-t", kind, kind, root / place], check=True)
            mounted.append(root / place)
        yield _follow(root, dist)
    finally:
        for path in reversed(mounted):
            subprocess.run(["umount", path], check=True)


def _follow(root: Path, dist: Path) -> Image:
    """Do what the Dockerfile says, line by line."""
    env = {name: value for name, value in os.environ.items() if name.startswith(_NETWORK)}
    env |= {"HOME": "/root", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
    folder, entry = "/", list[str]()
    text = re.sub(r"^#.*\n", "", (PROJECT / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE)

    def inside(*argv: str) -> subprocess.CompletedProcess[str]:
        shell = f'cd {folder} && exec "$@"'
        return _done(["chroot", str(root), "sh", "-c", shell, "sh", *argv], env)

    for line in text.replace("\\\n", "").splitlines():
        word, _, rest = line.partition(" ")
        match word:
            case "" | "FROM":
                pass
            case "ARG":  # prebuilt interpreters are not on every network: Debian's will do
                env |= {"PYTHONS": ""} if rest.startswith("PYTHONS=") else {}
            case "ENV":
                name, _, value = rest.partition("=")
                env[name] = value
            case "COPY":
                *sources, target = rest.split()
                place = root / target.strip("/")
                place.mkdir(parents=True, exist_ok=True)
                for source in sources:
                    folder_, _, pattern = source.rpartition("/")
                    near = dist if folder_ == "dist" else PROJECT / folder_
                    for path in near.glob(pattern):
                        shutil.copy(path, place)
            case "RUN":
                done = inside("sh", "-c", rest)
                assert done.returncode == 0, (rest, done.stdout[-3000:])
            case "WORKDIR":
                folder = rest
                (root / rest.strip("/")).mkdir(parents=True)
            case "ENTRYPOINT":
                entry = re.findall(r'"([^"]+)"', rest)
            case _:
                raise NotImplementedError(line)

    def run(repository: Path, *words: str) -> subprocess.CompletedProcess[str]:
        place = root / folder.strip("/")
        shutil.rmtree(place)
        shutil.copytree(repository, place, symlinks=True)
        return inside(*entry, *words)

    return run


def _done(argv: list[str], env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program, whose two outputs are one."""
    return subprocess.run(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
        env=env,
    )
