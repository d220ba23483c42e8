"""The container image: what its Dockerfile says, and that it measures."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

import pytest

import tutorial
from bench import PROJECT
from duetbench.app import tools
from duetbench.counts import counting
from observatory.matrix.checkout import Checkout

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
    oha = tools.find_oha(Checkout(PROJECT).configuration.oha)
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


DOCKERFILE: Final = (PROJECT / "Dockerfile").read_text("utf-8")
ENGINE: Final = os.environ.get("CONTAINER", "")
"""What has built the image, as `make image` does; or `buildah`, which then builds it here."""

_DOCKER: Final = """\
#!/bin/sh
[ "$1" = login ] && read -r secret && echo "secret is $secret" >>"{log}"
echo "$@" >>"{log}"
"""


def test_the_dockerfile_installs_what_is_locked_and_counting_needs() -> None:
    """It names no host; each file that it copies is there, and is not hidden from the builder."""
    assert not re.search(r"\w+\.(io|com|org|net)\b", DOCKERFILE)
    (install,) = re.findall(r"pip install .*?&&", DOCKERFILE.replace("\\\n", ""))
    assert "--require-hashes" in install
    assert "--constraints requirements.txt" in install
    packages = re.findall(r"[\w-]+", DOCKERFILE.partition("recommends")[2].partition("&&")[0])
    assert {*" ".join(counting.NEEDED.values()).split(), "git"} <= set(packages)
    copied = {name for line in re.findall(r"COPY (.+) \S+", DOCKERFILE) for name in line.split()}
    seen = set((PROJECT / ".dockerignore").read_text("utf-8").splitlines())
    assert copied == {"requirements.txt", "scripts/bootstrap.py", "dist/*.whl"}
    assert seen == {"*", *(f"!{name.removesuffix('/*.whl')}" for name in copied)}


def test_the_image_is_published_for_both_kinds_of_machines(tmp_path: Path) -> None:
    """Its name is in small letters, and the token is on no command line."""
    docker, log = tmp_path / "docker", tmp_path / "log"
    docker.write_text(_DOCKER.format(log=log), "utf-8")
    docker.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_TOKEN": "s3cret", "TAG": "v1.2.3"}
    env |= {"GITHUB_ACTOR": "Ann", "GITHUB_REPOSITORY": "Ann/DuetBench", "REGISTRY": "r.invalid"}
    make = ["make", "--silent", "-C", str(PROJECT), "publish-image", "publish-images"]
    subprocess.run(make, env=env, check=True)
    name, login = "r.invalid/ann/duetbench", "login --username Ann --password-stdin r.invalid"
    own = f"{name}:1.2.3-{os.uname().machine}"
    tags = f"--tag {name}:1.2.3 --tag {name}:latest"
    assert log.read_text("utf-8").splitlines() == [
        "build --quiet --tag duetbench .",
        "secret is s3cret",
        login,
        f"tag duetbench {own}",
        f"push --quiet {own}",
        "secret is s3cret",
        login,
        f"buildx imagetools create {tags} {name}:1.2.3-x86_64 {name}:1.2.3-aarch64",
    ]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    if ENGINE != "buildah":
        if not ENGINE:
            pytest.skip("takes minutes: `make image`")
        yield engine(ENGINE)
        return
    with built(tmp_path_factory.mktemp("image")) as image:
        yield image


@pytest.mark.long
@pytest.mark.real
def test_the_image_finds_what_the_tutorial_changes(image: Image, tmp_path: Path) -> None:
    """It installs both sides, counts statements and instructions, and loads both servers."""
    tutorial.follow(tmp_path / "library")
    words = ("compare", "HEAD~1", "--app", "library:app", "--path", "/authors", "--budget", "90s")
    done = image(tmp_path / "library", *words)
    assert done.returncode == 1, done.stdout
    assert "▼ slower" in done.stdout
    assert "SQL statements" in done.stdout
    assert "find_book" in done.stdout
