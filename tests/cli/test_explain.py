"""`duetbench explain`: one source of words, also where there is no checkout."""

import pytest

from bench import invoke
from duetbench.cli import explain
from duetbench.core.errors import FlagName
from duetbench.core.metrics import METRICS
from duetbench.core.model import Verdict
from duetbench.show import findings, formats


@pytest.mark.parametrize(
    ("words", "start"),
    [
        ("host_noise", "host_noise: other processes or the hypervisor took core time"),
        ("would have been seen", "would have been seen: "),
        ("head", "head: The two sides of a comparison: base is before the change"),
        ("throughput", "throughput: Good answers"),
        ("function calls", "function calls: What one request makes"),
        ("▼ worse", "worse: "),
        # A label of a report has more words than what it names.
        ("p99 response time of 3 cases", "p99 response time: "),
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
    kinds = {title.lower() for title, _, _ in findings.KINDS.values()}
    nouns = {formats.noun(name).lower() for name in METRICS}
    assert {*FlagName, *METRICS, *Verdict, *kinds, *nouns} <= known.keys()
    assert all(known.values())
    listed = invoke(capsys, monkeypatch, ("explain",)).out.rpartition("\n\n")[0]
    assert 20 < len(listed.split("·")) <= 60
    done = invoke(capsys, monkeypatch, ("explain", "host_nose"))
    assert (done.code, "did you mean host_noise" in done.err) == (2, True)
