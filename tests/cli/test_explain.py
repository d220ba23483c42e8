"""`duetbench explain`: one source of words, also where there is no checkout."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from bench import invoke
from duetbench.cli import explain
from duetbench.core.errors import FlagName
from duetbench.core.metrics import METRICS
from duetbench.core.model import Verdict
from duetbench.show import change, effects, formats, labels, verdict
from duetbench.show.comparison_view import make_view
from duetbench.store import files
from duetbench.store.comparison import Comparison

STORED: Final = Path(__file__).parents[2] / "results" / "comparisons"


@pytest.mark.parametrize(
    ("words", "start"),
    [
        ("host_noise", "host_noise: other processes or the hypervisor took core time"),
        (formats.SMALL, "too small to matter: "),
        (formats.SEEN, "would have been seen: "),
        ("head", "head: The two sides of a comparison: base is before the change"),
        ("PSS", "pss: Proportional set size: memory"),
        ("throughput", "throughput: Good answers"),
        ("function calls", "function calls: How many Python functions one request calls."),
        # A label, and not a word that it contains.
        ("memory kept after it", "memory kept after it: Memory that a request leaves behind"),
        ("noise on both sides", "noise: Other programs took time"),
        ("= below 2 %", "below: No change"),
    ],
)
def test_words_of_reports_are_explained(
    words: str, start: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = invoke(capsys, monkeypatch, ("explain", *words.split()))
    assert (done.code, done.out[: len(start)]) == (0, start)
    assert "](" not in done.out


def test_all_words_have_a_meaning_and_others_are_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = explain.meanings()
    assert {*FlagName, *METRICS} <= known.keys()
    assert all(known.values())
    listed = invoke(capsys, monkeypatch, ("explain",)).out
    heads = [line for line in listed.splitlines() if line and not line.startswith(" ")]
    assert heads[:-1] == [*labels.groups(), "other words"]
    done = invoke(capsys, monkeypatch, ("explain", "host_nose"))
    assert (done.code, "did you mean host_noise" in done.err) == (2, True)


LONGER: Final = {"ceiling", "cpu per request", "efficiency", "instructions per request"}
"""Figures of which the glossary, or their label, says more than the registry."""


def printed_labels() -> Iterator[str]:
    """All labels that a report prints: from the registries, and of every stored comparison."""
    yield from ("share", "entries", "noise", "too small to matter", "would have been seen")
    for metric, row in METRICS.items():
        yield from (row.title, formats.noun(metric))
        yield from (formats.verdict(metric, outcome) for outcome in Verdict)
    yield from (effects.LEAKS, effects.LEAST, *effects.meanings())
    yield from (*verdict.HEAD, *effects.HEAD, *change.HEAD, *FlagName)
    for path in sorted(STORED.glob("*.json")):
        view = make_view(files.read(Comparison, path))
        yield from view.answer.head
        for section in view.sections:
            yield from (section.title, *section.head)
        yield from (name for name, _ in view.sections[0].lines)
        yield from (row.noun for row in view.rows)
        yield from (row.verdict.partition(",")[0] for row in view.rows)


def test_every_label_of_a_report_has_its_own_word() -> None:
    """No label falls back on a shorter word that it contains."""
    known, own = explain.meanings(), {*filter(None, printed_labels())}
    assert len(own) > 150
    assert [label for label in sorted(own) if labels.key(label) not in known] == []
    for title, meaning in effects.meanings().items():
        assert known[title.lower()] == meaning
    for metric, row in METRICS.items():
        if (noun := formats.noun(metric).lower()) not in LONGER:
            assert known[noun] == row.meaning
