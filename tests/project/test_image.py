"""The container image: what its Dockerfile says, and that it measures."""

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from bare import Programs
from bench import PROJECT, execute
from goldens import assert_golden
from repos import follow_tutorial

ENGINE: Final = os.environ.get("CONTAINER", "")
"""What has built the image, as `make image` does."""

_DOCKER: Final = """\
[ "$1" = login ] && read -r secret && echo "secret is $secret" >>"{log}"
echo "$@" >>"{log}"
"""


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
