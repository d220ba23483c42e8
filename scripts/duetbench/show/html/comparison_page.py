"""The page of a comparison: verdicts on one axis, then every sample, and how it was decided.

Its words are those of the reports (`show.comparison_view`).
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import compress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from markupsafe import Markup

from duetbench.core import __version__
from duetbench.core.metrics import INSTRUCTIONS
from duetbench.core.metrics import row as row_of
from duetbench.project import case_names
from duetbench.show import formats, verdict
from duetbench.show.comparison_view import Section, View, make_view
from duetbench.show.conclusion import TITLES, benchmark_name
from duetbench.show.formats import WORDY
from duetbench.show.html.charts import CHANGE, Caption, Dot, Value, forest, group
from duetbench.show.html.words import fill
from duetbench.store.comparison import SIDES, Comparison, Duet, Judgement

STYLES: Final = Path(__file__).with_name("site.css")
"""The styles of all pages."""

_KINDS: Final = {mark: verdict.value.replace(" ", "-") for verdict, mark in formats.MARKS.items()}
"""CSS classes of verdicts by their mark."""
_CHART: Final = "Head over base: every"
_OF_ALL: Final = "and what is said of all"


def content(
    comparison: Comparison, view: View, link: Callable[[str], str] | None = None
) -> dict[str, Any]:
    """Return what the template needs; `link` returns the address of a case's page, or ""."""
    rows_of = group((row.case, row) for row in view.rows)
    samples = [*_cases(comparison), *_inside(comparison)]
    # The order of the report: what moved comes first.
    places = {case: place for place, case in enumerate(rows_of)}
    samples.sort(key=lambda case: places.get(case["id"], len(places)))
    for case in samples:
        rows = rows_of.pop(case["id"], ())  # each verdict once
        case["verdicts"] = [f"{row.verdict}: {row.noun}" for row in rows]
    dots = group(
        (
            TITLES[row.group],
            Dot(
                f"{row.name or row.case} · {row.noun}",
                Value(row.judgement.interval, note=row.figures),
                href=link(row.case) if link else "",
                verdict=row.judgement.verdict,
                word=row.verdict,
                mirror=row_of(row.metric).better == "higher",
            ),
        )
        for row in view.rows
        if row.judgement.ratio is not None
    )
    about = Caption("verdicts", "Verdicts", "Head over base, each with its own 95 % interval.")
    return {
        "comparison": comparison,
        "view": view,
        "answer_lines": [*verdict.lines(replace(view.answer, more=0))],
        "wordy": WORDY,
        "kinds": _KINDS,
        "forest": forest(about, CHANGE, dots, notes="before → after") if dots else None,
        "samples": samples,
        "method": [(key.replace("_", " "), str(value)) for key, value in comparison.method.items()],
    }


def one_file(comparison: Comparison) -> str:
    """Write a comparison with all duets as one HTML file, without scripts or other files.

    Template, charts and styles are the site's, without links to its other pages.
    """
    style = STYLES.read_text("utf-8")
    return fill(
        "comparison.html.j2",
        layout="alone.html.j2",
        style=Markup(style),  # noqa: S704 - our own files
        # Cases and packages have no pages.
        site=SimpleNamespace(planned=frozenset(), packages={}),
        root="",
        title=f"{comparison.base.label} → {comparison.head.label}",
        version=__version__,
        confirmed=(),
        **content(comparison, make_view(comparison)),
    )


def _cases(comparison: Comparison) -> Iterator[dict[str, Any]]:
    for place, case in enumerate(comparison.cases):
        name, duets = case_names.of(case.case), sorted(case.duets, key=lambda duet: duet.order)
        ratios = {
            metric: [_ratio(duet.base.get(metric), duet.head.get(metric)) for duet in duets]
            for metric in (row.metric for row in case.judgements)
        }
        usable = [duet.usable for duet in duets]
        dots = [
            _dot(formats.title(row.metric), row, compress(ratios[row.metric], usable))
            for row in case.judgements
        ]
        lines = [
            (str(at + 1), *(formats.percent(of[at]) for of in ratios.values()), _note(duet))
            for at, duet in enumerate(duets)
        ]
        yield {
            "id": name.id,
            "name": str(name) if name.known else "",
            "because": case.because,
            "chart": _draw(Caption(f"duets-{place}", f"{_CHART} usable duet, {_OF_ALL}"), dots),
            "duets": Section("", head=("duet", *map(formats.title, ratios), "note"), rows=lines),
        }


def _inside(comparison: Comparison) -> Iterator[dict[str, Any]]:
    for place, micro in enumerate(comparison.micro):
        # Counts have no samples.
        pairs = () if micro.unit == INSTRUCTIONS else zip(micro.base, micro.head, strict=False)
        dots = [_dot("time in process", micro.judgement, (_ratio(*pair) for pair in pairs))]
        about = Caption(f"processes-{place}", f"{_CHART} pair of processes, {_OF_ALL}")
        yield {"id": benchmark_name(micro), "chart": _draw(about, dots)}


def _dot(title: str, judgement: Judgement, ratios: Iterable[float | None]) -> Dot:
    """Make the dot of a judged figure, with its samples."""
    samples = tuple(ratio for ratio in ratios if ratio is not None)
    value, word = Value(judgement.interval), formats.verdict(judgement.metric, judgement.verdict)
    if judgement.ratio is None:
        value = Value(None, note=judgement.reason or "too few samples")
        word = judgement.verdict.value
    mirror = row_of(judgement.metric).better == "higher"
    return Dot(title, value, "", "", judgement.verdict, word, samples, mirror)


def _draw(about: Caption, dots: Sequence[Dot]) -> Markup | None:
    """Draw the dots; return None if they have no samples."""
    return forest(about, CHANGE, {"": dots}) if any(dot.samples for dot in dots) else None


def _note(duet: Duet) -> str:
    """Return a duet's flags, or why it is not used."""
    if duet.usable:
        return ", ".join(dict.fromkeys(flag.name for flag in (*duet.flags_base, *duet.flags_head)))
    flags = (f"{side}: {flag.name}: {flag.detail}" for side in SIDES for flag in duet.flags(side))
    return f"not used: {'; '.join(flags)}"


def _ratio(base: float | None, head: float | None) -> float | None:
    """Return head over base, or None without a valid ratio."""
    ratio = head / base if base and head else 0.0
    return ratio if 0 < ratio < math.inf else None
