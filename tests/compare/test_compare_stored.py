"""Stored comparisons and trials judged again from their duets give the verdicts on record."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from comparing import busy, paced
from servebench.compare.decide import Confirmation, Screening, judge
from servebench.compare.durations import seconds_to_decide
from servebench.compare.instruments import direction
from servebench.compare.samples import CaseDuets, ProcessPair, ProcessPairs, ProcessReading
from servebench.compare.statistics import Direction
from servebench.core.model import Case
from servebench.host import paths
from servebench.record import files
from servebench.record.comparison import Comparison, Duet, Instructions, Judgement, MicroComparison
from servebench.record.trial import Trial, load_trials
from synthetic import make_case

RECORDED: Final = paths.project_root() / "tests" / "data" / "judged_again.txt"
"""What the rules say today. Where they change on purpose: `python tests/test_compare_stored.py`."""


def of_comparison(stored: Comparison) -> Iterator[str]:
    duets = [duet for case in stored.cases for duet in case.duets]
    measured = [case.case for case in stored.cases if case.duets]
    hints = {case.case.id: direction(case.instructions) for case in stored.cases}
    yield from judged(measured, sorted(duets, key=lambda duet: duet.order), hints)
    yield from of_benchmarks(stored.micro)


def of_trial(trial: Trial) -> Iterator[str]:
    said: dict[str, dict[str, int]] = {}
    for one in trial.said:
        said.setdefault(one.case, {})[one.metric] = one.screened
    counted = Instructions(base=1, head=trial.instructions or 1, spread=0)
    hints = {trial.planted: direction(counted)}
    measured = {figures.case for figures in trial.figures} & said.keys()
    cases = [_case(name, said[name].keys()) for name in said if name in measured]
    yield from judged(cases, _duets(trial, said), hints)


def of_benchmarks(micro: Iterable[MicroComparison]) -> Iterator[str]:
    stored = {f"{one.benchmark}() {one.stack} {one.python}": one for one in micro if one.base}
    screening = Screening({name: ProcessPairs() for name in stored})
    for name, one in stored.items():
        for pair in _pairs(one)[: one.judgement.screened]:
            screening.add(name, pair)
    confirmation = Confirmation(screening)
    for name in confirmation.samples:
        for pair in _pairs(stored[name])[stored[name].judgement.screened :]:
            confirmation.add(name, pair)
    confirmation.close()
    for name, (found,) in judge(screening, confirmation).items():
        yield _line(name, found)


def judged(cases: list[Case], duets: Iterable[Duet], hints: dict[str, Direction]) -> Iterator[str]:
    duets_ = CaseDuets.of(cases)
    screening = Screening(duets_)
    for case, samples in duets_.items():
        if hint := hints.get(case, 0):
            for metric, toward in samples.follows(hint).items():
                screening.hint(case, metric, toward)
    duets = list(duets)
    for duet in duets:
        if duet.stage == "screening":
            screening.add(duet.case, duet)
    confirmation = Confirmation(screening)
    for duet in duets:  # of a candidate of the rules of its day only: none
        if duet.stage == "confirmation" and duet.case in confirmation.samples:
            confirmation.add(duet.case, duet)
    confirmation.close()
    for case, judgements in judge(screening, confirmation).items():
        yield from (_line(case, one) for one in judgements)
        if seconds := seconds_to_decide(case, screening, confirmation):
            yield f"{case} decided in {seconds:.6g} s more"


def _case(name: str, metrics: Iterable[str]) -> Case:
    metrics = set(metrics)
    if "throughput" in metrics or metrics == {"server_cpu_per_request"}:
        return busy(name)
    if "service_p50" in metrics:
        return paced(name)
    return make_case(name) if "efficiency" in metrics else make_case(name, ceiling=None)


def _duets(trial: Trial, said: dict[str, dict[str, int]]) -> Iterator[Duet]:
    figures: dict[str, dict[str, Any]] = {}
    for one in trial.figures:
        figures.setdefault(one.case, {})[one.metric] = one
    for case, metrics in figures.items():
        screened = max(said.get(case, {"": 0}).values())
        for number in range(max(len(one.base) for one in metrics.values())):
            there = {name: one for name, one in metrics.items() if number < len(one.base)}
            yield Duet(
                case=case, stage="screening" if number < screened else "confirmation",
                order=number, head_first=False, started=trial.started, seconds=8, load_seconds=4,
                base={name: one.base[number] for name, one in there.items()},
                head={name: one.head[number] for name, one in there.items()},
            )  # fmt: skip


def _pairs(one: MicroComparison) -> list[ProcessPair]:
    both = zip(one.base, one.head, strict=True)
    return [ProcessPair(ProcessReading(b, "1"), ProcessReading(h, "1"), 4.0) for b, h in both]


def _line(name: str, found: Judgement) -> str:
    figures = (found.ratio, found.low, found.high, found.detectable, found.p)
    shown = " ".join("-" if value is None else f"{value:.6g}" for value in figures)
    counts = f"{found.screened}+{found.confirmed}"
    return f"{name} {found.metric} | {found.verdict} {shown} {counts} {found.reason}".rstrip()


def everything() -> str:
    results = paths.results_dir()
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
