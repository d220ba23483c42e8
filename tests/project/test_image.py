"""The container image: what its Dockerfile says, and that it measures."""

import os
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from bare import Programs
from bench import PROJECT, execute
from duetbench.counts import counted
from goldens import assert_golden
from repos import follow_tutorial

DOCKERFILE: Final = (PROJECT / "Dockerfile").read_text("utf-8")
ENGINE: Final = os.environ.get("CONTAINER", "")
"""What has built the image, as `make image` does."""

_DOCKER: Final = """\
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
    assert {*" ".join(counted.NEEDED.values()).split(), "git"} <= set(packages)
    copied = {name for line in re.findall(r"COPY (.+) \S+", DOCKERFILE) for name in line.split()}
    seen = set((PROJECT / ".dockerignore").read_text("utf-8").splitlines())
    assert copied == {"requirements.txt", "scripts/bootstrap.py", "dist/*.whl"}
    assert seen == {"*", *(f"!{name.removesuffix('/*.whl')}" for name in copied)}


def test_the_image_is_published_for_both_kinds_of_machines(tmp_path: Path) -> None:
    """Its name is in small letters, and the token is on no command line."""
    log = tmp_path / "log"
    Programs(tmp_path).write("docker", _DOCKER.format(log=log))
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_TOKEN": "s3cret", "TAG": "v1.2.3"}
    env |= {"GITHUB_ACTOR": "Ann", "GITHUB_REPOSITORY": "Ann/DuetBench", "REGISTRY": "r.invalid"}
    make = ["make", "--silent", "-C", str(PROJECT), "publish-image", "publish-images"]
    subprocess.run(make, env=env, check=True)
    text = log.read_text("utf-8").replace(os.uname().machine, "MACHINE", 2)
    assert_golden("answers/published.txt", text)


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.real
@pytest.mark.skipif(not ENGINE, reason="takes minutes: `make image`")
def test_the_image_finds_what_the_tutorial_changes(tmp_path: Path) -> None:
    """It installs both sides, counts statements and instructions, and loads both servers."""
    follow_tutorial(tmp_path / "library")
    words = ("compare", "HEAD~1", "--app", "library:app", "--path", "/authors", "--budget", "90s")
    argv = [ENGINE, "run", "--rm", "--volume", f"{tmp_path}/library:/repo", "duetbench", *words]
    result = execute(argv)
    assert result.returncode == 1, result
    for text in ("▼ worse", "SQL statements", "find_book"):
        assert text in result.stdout
