"""Stored comparisons: a list, and for each its verdicts, its duets one by one, and its file.

The words are those of the reports (`show.view`).
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from markupsafe import Markup

from duetbench.core import __version__
from duetbench.core.metrics import METRICS
from duetbench.project import names
from duetbench.project.names import CaseName
from duetbench.show import addresses, formats, rows
from duetbench.show.attribution import FIRST
from duetbench.show.change import describe
from duetbench.show.rows import Grid, ViewRow
from duetbench.show.site.charts import CHANGE, Caption, Dot, Value, forest
from duetbench.show.site.pages.site import PageFile, Site, grouped, render
from duetbench.show.site.words import filled
from duetbench.show.view import View, make_view
from duetbench.store.change import Change
from duetbench.store.comparison import (
    CaseComparison,
    Comparison,
    Duet,
    Judgement,
    SideRecord,
)
from duetbench.store.points import INSTRUCTIONS

_GROUPS: Final = ("worse", "better", "undecided", "unchanged")
_TITLES: Final = ("Worse", "Better", "Not decided", "No change")
_KINDS: Final = {mark: verdict.value.replace(" ", "-") for verdict, mark in formats.MARKS.items()}
"""CSS classes of verdicts by their mark."""
_LOOK: Final = re.compile(r"(\d+) duets: ([\d.]+%)")
_CHART: Final = "Head over base: every usable duet, and what is said of all"
_INSIDE: Final = "Head over base: every pair of processes, and what is said of all"


def pages(site: Site) -> Iterator[PageFile]:
    """The list, and one page for each comparison."""
    confirmed = grouped((record.evidence, record) for record in site.changes if record.evidence)
    listed = []
    for name, comparison in site.comparisons.items():
        try:
            view = make_view(comparison)
            page = _page(site, comparison, view, confirmed.get(name, ()))
        except (ArithmeticError, LookupError, ValueError) as problem:
            # Its values are of the right types and make no sense: the others do.
            reason = f"The file cannot be shown: {type(problem).__name__}: {problem!s:.200}"
            address, title = addresses.comparison(name), f"Comparison {name}"
            yield render(site, "missing.html.j2", address, title, reason=reason)
            continue
        listed.append((comparison, view.headline))
        yield page
    yield render(
        site,
        "comparisons.html.j2",
        addresses.COMPARISONS,
        "Comparisons",
        "Comparisons that are kept as evidence: two stacks, or two commits, measured together.",
        listed=listed,
    )


def _page(site: Site, comparison: Comparison, view: View, confirmed: Sequence[Change]) -> PageFile:
    address = addresses.comparison(comparison.id)
    root = addresses.root(addresses.file(address))

    def case(name: str) -> str:
        return root + addresses.case(name) if name in site.planned else ""

    return render(
        site,
        "comparison.html.j2",
        address,
        f"{comparison.base.label} → {comparison.head.label}",
        view.headline,
        confirmed=[describe(record) for record in confirmed],
        why=site.explanations(confirmed, comparison.id),
        most_rows=FIRST,
        **content(comparison, view, case),
    )


def content(
    comparison: Comparison, view: View, address: Callable[[str], str] = lambda _: ""
) -> dict[str, Any]:
    """What the template asks for; `address`: from a case's id to its page, or empty."""
    return {
        "comparison": comparison,
        "view": view,
        "kinds": _KINDS,
        "forest": _forest(view, address),
        "played": _in_order(view, (*_cases(comparison, view), *_inside(comparison, view))),
        "sides": [(name, _side(side)) for name, side in _sides(comparison)],
        "looks": [*looks(comparison, view.groups.all)],
        "method": [(key.replace("_", " "), str(value)) for key, value in comparison.method.items()],
    }


def one_file(comparison: Comparison) -> str:
    """A comparison with every duet as one HTML file: no server, no script, nothing to fetch.

    Template, charts and styles are the site's; what leads to its other pages is left out.
    """
    style = (Path(__file__).parents[1] / "static" / "site.css").read_text("utf-8")
    return filled(
        "comparison.html.j2",
        layout="alone.html.j2",
        style=Markup(style),  # noqa: S704 - our own files
        # No case and no package has a page.
        site=SimpleNamespace(planned=frozenset(), packages={}),
        root="",
        title=f"{comparison.base.label} → {comparison.head.label}",
        version=__version__,
        confirmed=(),
        **content(comparison, make_view(comparison)),
    )


def _forest(view: View, address: Callable[[str], str]) -> Markup | None:
    groups = {
        title: [
            Dot(
                f"{row.case} · {row.label}",
                Value(row.judged.interval),
                href=address(row.case),
                verdict=row.judged.verdict,
                word=row.verdict,
            )
            for row in getattr(view.groups, name)
            if row.judged.ratio is not None
        ]
        for title, name in zip(_TITLES, _GROUPS, strict=True)
    }
    drawn = {title: dots for title, dots in groups.items() if dots}
    about = Caption("verdicts", "Verdicts", "Head over base, each with its own 95 % interval.")
    return forest(about, CHANGE, drawn) if drawn else None


def _sides(comparison: Comparison) -> Iterator[tuple[str, SideRecord]]:
    yield "base", comparison.base
    yield "head", comparison.head


def _side(side: SideRecord) -> list[tuple[str, str]]:
    dirty = " with uncommitted changes" * side.dirty
    return [
        ("what", side.label),
        ("applications", f"commit {side.commit[:12]}{dirty}" if side.commit else "no commit"),
        *(
            (
                f"interpreter {interpreter.name}",
                f"{interpreter.version}, {interpreter.build} ({interpreter.origin})",
            )
            for interpreter in side.interpreters
        ),
        *(
            (
                f"lock of {stack.name}",
                f"{stack.digest[:12]}, {formats.quantity(len(stack.packages), 'package')}",
            )
            for stack in side.stacks
        ),
    ]


def _in_order(view: View, played: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What moved first, as everywhere."""
    places = {row.case: place for place, row in reversed([*enumerate(view.groups.all)])}
    return sorted(played, key=lambda case: places.get(case["id"], len(places)))


def _cases(comparison: Comparison, view: View) -> Iterator[dict[str, Any]]:
    rows_of = grouped((row.case, row) for row in view.groups.all if row.metric)
    for place, case in enumerate(comparison.cases):
        name, duets = names.of(case.case), sorted(case.duets, key=lambda duet: duet.order)
        usable = [duet for duet in duets if duet.usable]
        dots = [
            _dot(
                METRICS[judgement.metric].title,
                judgement,
                [
                    _ratio(duet.base.get(judgement.metric), duet.head.get(judgement.metric))
                    for duet in usable
                ],
            )
            for judgement in case.judgements
        ]
        about = Caption(f"duets-{place}", _CHART)
        judged = rows_of.get(case.case.id, ())
        yield _played(name, case.because, judged, _drawn(about, dots), _grid_of(case, duets))


def _inside(comparison: Comparison, view: View) -> Iterator[dict[str, Any]]:
    alone = [row for row in view.groups.all if not row.metric]
    for place, benchmark in enumerate(comparison.micro):
        judged = [row for row in alone if row.judged is benchmark.judgement]
        name = judged[0].case if judged else benchmark.benchmark
        counted = benchmark.unit == INSTRUCTIONS
        samples = () if counted else zip(benchmark.base, benchmark.head, strict=False)
        pairs = [_ratio(*pair) for pair in samples]
        about = Caption(f"processes-{place}", _INSIDE)
        chart = _drawn(about, [_dot("time in process", benchmark.judgement, pairs)])
        yield _played(names.name(name), "", judged, chart)


def _played(
    name: CaseName,
    because: str,
    judged: Sequence[ViewRow],
    chart: Markup | None,
    duets: Grid | None = None,
) -> dict[str, Any]:
    return {
        "id": name.id,
        "name": str(name) if name.known else "",
        "because": because,
        "grid": rows.table(judged, "case", "why"),
        "chart": chart,
        "duets": duets,
        "verdicts": [f"{row.verdict}: {row.label}" for row in judged],
    }


def _dot(title: str, judgement: Judgement, ratios: Iterable[float | None]) -> Dot:
    """A judged figure with the samples that it was made from."""
    samples = tuple(ratio for ratio in ratios if ratio is not None)
    value, word = Value(judgement.interval), judgement.verdict.value
    if judgement.ratio is None:
        value = Value(None, note=judgement.reason or "too few samples")
    else:
        metric = judgement.metric if judgement.metric in METRICS else ""
        word = formats.verdict(metric, judgement.verdict)
    return Dot(title, value, verdict=judgement.verdict, word=word, samples=samples)


def _drawn(about: Caption, dots: Sequence[Dot]) -> Markup | None:
    """None without a sample."""
    return forest(about, CHANGE, {"": dots}) if any(dot.samples for dot in dots) else None


def _grid_of(case: CaseComparison, duets: Sequence[Duet]) -> Grid:
    """Every duet with its ratios, also those that are not used, and why."""
    metrics = [judgement.metric for judgement in case.judgements]
    lines = []
    for place, duet in enumerate(duets, 1):
        ratios = (_ratio(duet.base.get(metric), duet.head.get(metric)) for metric in metrics)
        lines.append((str(place), *map(formats.percent, ratios), _note(duet)))
    return Grid(("duet", *(METRICS[metric].title for metric in metrics), "note"), lines, ("note",))


def _note(duet: Duet) -> str:
    """Its flags; of one that is not used, why."""
    sides = (("base", duet.flags_base), ("head", duet.flags_head))
    flags = [(side, flag) for side, raised in sides for flag in raised]
    if duet.usable:
        return ", ".join(dict.fromkeys(flag.name for _, flag in flags))
    return "not used: " + "; ".join(f"{side}: {flag.name}: {flag.detail}" for side, flag in flags)


def _ratio(base: float | None, head: float | None) -> float | None:
    """Head over base; None where there is none."""
    if not base or not head or base < 0 or head < 0:
        return None
    return ratio if math.isfinite(ratio := head / base) else None


def looks(comparison: Comparison, every: Iterable[ViewRow]) -> Iterator[dict[str, Any]]:
    """The schedule of each test, look by look: how many samples, and its share of the error rate.

    `rests`: Rows whose interval is that of this look; None: the file does not say.
    """
    schedules = {
        name: steps
        for name, text in comparison.method.items()
        if (steps := _LOOK.findall(str(text)))
    }
    alone = len(schedules) == 1
    counted = Counter(row.judged.duets for row in every if row.judged.ratio is not None)
    for name, steps in schedules.items():
        word = name.replace("_", " ").removesuffix("s")
        for number, (samples, share) in enumerate(steps, 1):
            rests = counted.pop(int(samples), 0) if alone else None
            yield {
                "name": f"{word} {number}",
                "samples": samples,
                "share": share,
                "rests": rests,
            }
        if alone and (early := counted.total()):
            label = "the last one, taken early"
            yield {"name": label, "samples": "", "share": "what was left", "rests": early}
