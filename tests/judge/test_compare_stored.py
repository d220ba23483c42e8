"""Stored comparisons and trials judged again from their duets give the verdicts on record."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from comparing import busy, paced
from duetbench.core.model import Case
from duetbench.host import paths
from duetbench.judge.decide import SequentialTest, judge
from duetbench.judge.durations import seconds_to_decide
from duetbench.judge.instruments import differ
from duetbench.judge.samples import CaseDuets
from duetbench.project.project import Project
from duetbench.store import files
from duetbench.store.comparison import Comparison, Duet, Instructions, Judgement
from duetbench.store.trial import Trial, load_trials
from synthetic import make_case

RECORDED: Final = paths.project_root() / "tests" / "data" / "judged_again.txt"
"""What the rules say today. Where they change on purpose, run this file."""


def of_comparison(stored: Comparison) -> Iterator[str]:
    duets = [duet for case in stored.cases for duet in case.duets]
    measured = [case.case for case in stored.cases if case.duets]
    hinted = {case.case.id for case in stored.cases if differ(case.instructions)}
    yield from judged(measured, sorted(duets, key=lambda duet: duet.order), hinted)


def of_trial(trial: Trial) -> Iterator[str]:
    said: dict[str, list[str]] = {}
    for one in trial.said:
        said.setdefault(one.case, []).append(one.metric)
    counted = Instructions(base=1, head=trial.instructions or 1, spread=0)
    hinted = {trial.planted} if differ(counted) else set()
    measured = {figures.case for figures in trial.figures} & said.keys()
    cases = [_case(name, said[name]) for name in said if name in measured]
    yield from judged(cases, _duets(trial), hinted)


def judged(cases: list[Case], duets: Iterable[Duet], hinted: set[str]) -> Iterator[str]:
    samples = CaseDuets.of(cases)
    test = SequentialTest(samples)
    for case in hinted & samples.keys():
        for metric in samples[case].computed:
            test.hint(case, metric)
    for duet in duets:
        test.add(duet.case, duet)
    test.close()
    for case, judgements in judge(test).items():
        yield from (_line(case, one) for one in judgements)
        if seconds := seconds_to_decide(case, test):
            yield f"{case} decided in {seconds:.6g} s more"


def _case(name: str, metrics: Iterable[str]) -> Case:
    metrics = set(metrics)
    if "throughput" in metrics or metrics == {"server_cpu_per_request"}:
        return busy(name)
    if "service_p50" in metrics:
        return paced(name)
    return make_case(name) if "efficiency" in metrics else make_case(name, ceiling=None)


def _duets(trial: Trial) -> Iterator[Duet]:
    figures: dict[str, dict[str, Any]] = {}
    for one in trial.figures:
        figures.setdefault(one.case, {})[one.metric] = one
    for case, metrics in figures.items():
        for number in range(max(len(one.base) for one in metrics.values())):
            there = {name: one for name, one in metrics.items() if number < len(one.base)}
            yield Duet(
                case=case, order=number, head_first=False, started=trial.started,
                seconds=8, load_seconds=4,
                base={name: one.base[number] for name, one in there.items()},
                head={name: one.head[number] for name, one in there.items()},
            )  # fmt: skip


def _line(name: str, found: Judgement) -> str:
    figures = (found.ratio, found.low, found.high, found.detectable, found.p)
    shown = " ".join("-" if value is None else f"{value:.6g}" for value in figures)
    return f"{name} {found.metric} | {found.verdict} {shown} {found.duets} {found.reason}".rstrip()


def everything() -> str:
    results = Project.here().results
    lines = []
    for path in sorted((results / "comparisons").glob("*.json")):
        lines += [f"# {path.stem}", *of_comparison(files.read(Comparison, path))]
    for trial in load_trials(results):
        lines += [f"# {trial.id} {trial.kind}", *of_trial(trial)]
    return "\n".join(lines) + "\n"


def test_stored_comparisons_judged_again_give_the_same_verdicts() -> None:
    assert everything() == RECORDED.read_text("utf-8")


if __name__ == "__main__":
    RECORDED.write_text(everything(), "utf-8")
