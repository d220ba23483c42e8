"""Stored comparisons judged again from their duets give the verdicts on record."""

from collections.abc import Iterable, Iterator
from typing import Final

from duetbench.core.model import Case
from duetbench.host import paths
from duetbench.judge.counted import differ
from duetbench.judge.priors import Priors
from duetbench.judge.samples import CaseDuets
from duetbench.judge.sequential_test import SequentialTest, judge
from duetbench.project.project import Project
from duetbench.store import files
from duetbench.store.comparison import Comparison, Duet, Judgement

RECORDED: Final = paths.project_root() / "tests" / "data" / "judged_again.txt"
"""What the rules say today. Where they change on purpose, run this file."""


def of_comparison(stored: Comparison) -> Iterator[str]:
    duets = [duet for case in stored.cases for duet in case.duets]
    measured = [case.case for case in stored.cases if case.duets]
    hinted = {case.case.id for case in stored.cases if differ(case.instructions)}
    yield from judged(measured, sorted(duets, key=lambda duet: duet.order), hinted)


def judged(cases: list[Case], duets: Iterable[Duet], hinted: set[str]) -> Iterator[str]:
    samples = {case.id: CaseDuets(case) for case in cases}
    test = SequentialTest(samples, prior=Priors().of)
    for case in hinted & samples.keys():
        for metric in samples[case].computed:
            test.hint(case, metric)
    for duet in duets:
        test.add(duet.case, duet)
    test.close()
    for case, judgements in judge(test).items():
        yield from (_line(case, one) for one in judgements)


def _line(name: str, found: Judgement) -> str:
    figures = (found.ratio, found.low, found.high, found.detectable, found.p)
    shown = " ".join("-" if value is None else f"{value:.6g}" for value in figures)
    return f"{name} {found.metric} | {found.verdict} {shown} {found.duets} {found.reason}".rstrip()


def everything() -> str:
    results = Project.here().results
    lines = []
    for path in sorted((results / "comparisons").glob("*.json")):
        lines += [f"# {path.stem}", *of_comparison(files.read(Comparison, path))]
    return "\n".join(lines) + "\n"


def test_stored_comparisons_judged_again_give_the_same_verdicts() -> None:
    assert everything() == RECORDED.read_text("utf-8")


if __name__ == "__main__":
    RECORDED.write_text(everything(), "utf-8")
