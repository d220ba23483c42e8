"""The container image, built by an engine, or by buildah on a base of Debian's packages."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from duetbench.project import tools
from duetbench.project.project import Project
from repos import PROJECT

_CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "PIP_CERT")
"""Variables with the certificates by which this machine trusts its registries."""

_FILES: Final = (
    *("etc/apt", "etc/hosts", "etc/pip.conf", "etc/resolv.conf"),
    "usr/local/share/ca-certificates",
)
"""What a machine's administrator has set up to reach them."""


class Image(Protocol):
    """What can be run in a repository."""

    def __call__(self, repository: Path, *words: str) -> subprocess.CompletedProcess[str]:
        """Run duetbench in a container of the image that sees the repository."""


def engine(program: str) -> Image:
    """Return the image that docker, or a program with its options, has built."""

    def run(repository: Path, *words: str) -> subprocess.CompletedProcess[str]:
        volume = f"{repository}:/repo"
        return _run([program, "run", "--rm", "--volume", volume, "duetbench", *words])

    return run


@contextmanager
def built(folder: Path) -> Iterator[Image]:
    """Build the image by buildah, as root, in a folder that has all of its storage.

    Prebuilt interpreters and load generators are not on every network: the base has this machine's
    load generator, and Debian's interpreter will do.
    """
    storage = ("--storage-driver", "vfs", "--root", f"{folder}/root", "--runroot", f"{folder}/run")
    walls = ("--isolation", "chroot", "--network", "host")

    def buildah(*words: str) -> str:
        done = _run(["buildah", *storage, *words])
        assert done.returncode == 0, done.stdout[-3000:]
        return done.stdout.strip()

    base = buildah("from", "scratch")
    buildah("copy", "--quiet", base, str(debian := _debian(folder / "debian")), "/")
    shutil.rmtree(debian)
    variables = [f"{name}={os.environ[name]}" for name in _CERTIFICATES if name in os.environ]
    buildah("config", *(word for text in variables for word in ("--env", text)), base)
    buildah("commit", "--quiet", base, "localhost/base")
    arguments = ("--build-arg", "BASE=localhost/base", "--build-arg", "PYTHONS=")
    buildah("build", *walls, *arguments, "--tag", "duetbench", str(PROJECT))

    def run(repository: Path, *words: str) -> subprocess.CompletedProcess[str]:
        container = buildah("from", "localhost/duetbench")
        volume = ("--volume", f"{repository}:/repo")
        return _run(
            ["buildah", *storage, "run", *walls, *volume, container, "--", "duetbench", *words]
        )

    yield run
    buildah("rm", "--all")
    buildah("rmi", "--all", "--force")


def _debian(root: Path) -> Path:
    """Install Debian's essential packages, and what this machine has to reach its registries."""
    address = _run(["apt-get", "indextargets", "--format", "$(SITE) $(CODENAME)"]).stdout.split()
    base = ["debootstrap", "--variant=minbase", address[1], str(root), address[0]]
    assert (done := _run(base)).returncode == 0, done.stdout[-2000:]
    certificates = (os.environ[name].lstrip("/") for name in _CERTIFICATES if name in os.environ)
    for name in (*_FILES, *certificates):
        source, target = Path("/", name), root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=False, dirs_exist_ok=True)
        elif source.exists():
            shutil.copy(source, target)
    oha = tools.find_oha(Project(PROJECT).configuration.oha)
    shutil.copy(oha, root / "usr" / "local" / "bin")
    return root


def _run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a program, whose two outputs are one."""
    return subprocess.run(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
    )
