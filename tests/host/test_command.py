"""Last words: the exception first, and pages as the text that they show."""

from pathlib import Path
from typing import Final

import pytest

from duetbench.core.errors import SetupError
from duetbench.host import command
from duetbench.host.command import last_words
from goldens import DATA, assert_golden

WORDS: Final = DATA / "words"
"""What programs printed, and uv of builds that failed."""


def test_the_last_exception_comes_first() -> None:
    """Without what was given, which may be private, and without folders that people do not know."""
    texts = {path.stem: path.read_text("utf-8") for path in sorted(WORDS.glob("*.txt"))}
    said = [f"{name}: {last_words(text)}" for name, text in texts.items() if "build" not in name]
    assert_golden("answers/words.txt", "\n".join(said))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Listening at 8000\nno such loop: rloop\n", "Listening at 8000 / no such loop: rloop"),
        ("one  two\n\n" * 75 + "the end\n", "… / " + "one two / " * 59 + "the end"),
        (f"{'a ' * 400}the end", f"… {('a ' * 400 + 'the end')[-600:]}"),
        ("", "nothing"),
    ],
)
def test_other_words_are_the_last_ones(text: str, words: str) -> None:
    assert last_words(text) == words


@pytest.mark.parametrize(
    ("name", "more", "words"),
    [
        ("header", "", "fatal error: lber.h: No such file or directory"),
        ("traceback", "", "OSError: mysql_config not found"),
        ("long", "", "Failed to build `lib==1.0`"),
        ("toml", "", "parse: /x/pyproject.toml / cause: TOML parse error at line 1, column 1"),
        ("toml", "  cause: HTTP status client error (403 Forbidden)", "403"),
        ("hash", "", "Hash mism"),
        ("time", "", "timed out"),
    ],
)
def test_a_failed_build_quotes_its_own_error(
    name: str, more: str, words: str, tmp_path: Path
) -> None:
    argv = ["sh", "-c", f"cat {WORDS}/build-{name}.txt; echo '{more}'; exit 2"]
    with pytest.raises(SetupError) as caught:
        command.run(argv, what="it", log=tmp_path / "log", tick=lambda _: None)
    assert words in str(caught.value)
