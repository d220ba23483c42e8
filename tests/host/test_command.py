"""Last words: the exception first, and pages as the text that they show."""

from pathlib import Path

from duetbench.host import command
from duetbench.host.command import last_words
from goldens import assert_said


def test_the_last_exception_comes_first() -> None:
    """Without what was given, which may be private, and without folders that nobody knows."""
    assert_said("last-words", last_words)


def test_a_failed_build_quotes_its_own_error(tmp_path: Path) -> None:
    def fail(text: str) -> str:
        (tmp_path / "said").write_text(text)
        (tmp_path / "log").unlink(missing_ok=True)
        argv = ["sh", "-c", f"cat {tmp_path}/said; exit 2"]
        command.run(argv, what="it", log=tmp_path / "log", tick=lambda _: None)
        return "no error"

    assert_said("builds", fail, tmp_path)
