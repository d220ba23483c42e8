"""Stored comparisons judged again from their duets give the verdicts on record."""

from collections.abc import Iterator
from typing import Final

from duetbench.host import paths
from duetbench.judge.rule import judge
from duetbench.judge.samples import CaseDuets
from duetbench.project.project import Project
from duetbench.store import files
from duetbench.store.comparison import Comparison, Finding

RECORDED: Final = paths.project_root() / "tests" / "data" / "judged_again.txt"
"""What the rules say today. Where they change on purpose, run this file."""


def of_comparison(stored: Comparison) -> Iterator[str]:
    samples = {case.case.id: CaseDuets(case.case) for case in stored.cases if case.duets}
    duets = [duet for case in stored.cases for duet in case.duets]
    for duet in sorted(duets, key=lambda duet: duet.order):
        samples[duet.case].add(duet)
    for findings in judge(samples).values():
        yield from map(_line, findings)


def _line(finding: Finding) -> str:
    figures = (finding.ratio, finding.low, finding.high, finding.detectable)
    shown = " ".join("-" if value is None else f"{value:.6g}" for value in figures)
    name = f"{finding.case} {finding.subject}"
    return f"{name} | {finding.verdict} {shown} {finding.n} {finding.why}".rstrip()


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
