"""`duetbench explain`: what a word of the reports means."""

import difflib
import re
from pathlib import Path
from typing import Final

from rich.padding import Padding
from rich.text import Text

from duetbench.core.effects import EFFECTS
from duetbench.core.errors import FlagName, UsageError
from duetbench.core.metrics import METRICS
from duetbench.core.model import Verdict
from duetbench.host.console import Console

_PACKAGE: Final = Path(__file__).parents[1]
_PLACES: Final = (
    _PACKAGE / "glossary.md",  # in a wheel
    _PACKAGE.parents[1] / "docs" / "glossary.md",  # in a checkout
)

_LINK: Final = re.compile(r"\[([^]]*)\]\([^)]*\)")
_SIGN: Final = re.compile(r"^[▼▲=?≠]\s*")
_OTHERS: Final = {
    **{verdict.sign: verdict.value for verdict in Verdict},
    "pair": "duet",
    "pairs": "duet",
    "functions that differ": "function calls",
}
"""What reports write otherwise → the word that is explained."""


def explain_command(*word: str) -> None:
    """Explain a word of the reports, a flag, or a metric; without one, list the words.

    $ duetbench explain host_noise
    $ duetbench explain would have been seen

    Args:
        word: A word of a report.
    """
    console, known = Console(), meanings()
    if not word:
        console.print(Padding(Text(" · ".join(_glossary())), (0, 0, 0, 2)))
        console.say(
            "\nduetbench explain WORD says what one means, or a metric or flag of a report."
        )
        return
    text = " ".join(word).strip()
    name = _OTHERS.get(text) or _SIGN.sub("", text).lower()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        near = near or [other for other in known if name in other][:3]
        hint = f"did you mean {' or '.join(near)}?" if near else "without a word, all are listed"
        raise UsageError(f"explain {name}: no word of duetbench; {hint}")
    console.say(f"{name}: {known[name]}")


def meanings() -> dict[str, str]:
    """Return what words of the glossary, metrics, effects and flags mean, by the word."""
    words = _glossary()
    for name in [*words]:
        for part in name.split(", "):
            words.setdefault(part, words[name])
    metrics = {
        key.lower(): row.meaning
        for row in METRICS.values()
        for key in (row.name, row.title, row.noun, row.label)
    }
    kinds = {row.noun.lower(): row.meaning for row in EFFECTS.values()}
    flags = {flag.value: f"{flag.meaning}." for flag in FlagName}
    return {**metrics, **kinds, **flags, **words}


def _glossary() -> dict[str, str]:
    text = next(place for place in _PLACES if place.is_file()).read_text("utf-8")
    entries = (part.partition("\n") for part in text.split("\n## ")[1:])
    return {name.lower(): _plain(meaning) for name, _, meaning in entries}


def _plain(markdown: str) -> str:
    """Return a text without links and line breaks."""
    paragraphs = _LINK.sub(r"\1", markdown).strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()).replace("*", "") for paragraph in paragraphs)
