"""`duetbench explain`: one source of words, also where there is no checkout."""

import pytest

from bench import invoke
from duetbench.cli import explain
from duetbench.core.errors import FlagName
from duetbench.core.metrics import METRICS
from duetbench.show import formats


@pytest.mark.parametrize(
    ("words", "start"),
    [
        ("host_noise", "host_noise: other processes or the hypervisor took core time"),
        (formats.SMALL, "too small to matter: "),
        (formats.SEEN, "would have been seen: "),
        ("head", "head: The two sides of a comparison: base is before the change"),
        ("PSS", "pss: Proportional set size: memory"),
        ("throughput", "throughput: Good answers"),
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
    assert invoke(capsys, monkeypatch, ("explain",)).out.startswith(next(iter(known)))
    done = invoke(capsys, monkeypatch, ("explain", "host_nose"))
    assert (done.code, "did you mean host_noise" in done.err) == (2, True)
