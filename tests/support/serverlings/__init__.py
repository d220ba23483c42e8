"""Misbehaving programs for the tests of processes, ports, orphans and sampling."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import eventually
from duetbench.host.process_session import Session

PROGRAMS = Path(__file__).with_name("programs.py")


def command(*words: object) -> list[str]:
    return [sys.executable, str(PROGRAMS), *map(str, words)]


def launch(folder: Path, name: str, *arguments: object, cores: list[int] | None = None) -> Session:
    return Session.start(
        command(name, *arguments),
        role="server",
        cores=cores,
        env=os.environ,
        cwd=folder,
        log=folder / f"{name}.log",
    )


@contextmanager
def started(*words: object, **how: Any) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A program outside of any session, and its first words; it is killed at last."""
    with subprocess.Popen(command(*words), stdout=subprocess.PIPE, text=True, **how) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().split()
        finally:
            process.kill()


def said(session: Session, word: str) -> list[str]:
    """Wait for the line that begins with `word`, and give its other words."""
    line = re.compile(rf"^{word}\b(.*)\n", re.MULTILINE)
    words: str = eventually(word, lambda: line.search(session.log.read_text()))[1]
    return words.split()
