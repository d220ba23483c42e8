"""Pages of evidence: changes with a feed of them, attributions, and comparisons.

Pages of changes and comparisons come from records and run files, whose figures no longer change.
The words of comparisons are those of the reports (`show.view`).
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import compress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from markupsafe import Markup

from duetbench.core import __version__
from duetbench.core.metrics import INSTRUCTIONS, METRICS
from duetbench.project import names
from duetbench.show import addresses, formats
from duetbench.show.answer import TITLES, benchmark_name
from duetbench.show.change import (
    AttributionText,
    ChangeText,
    commands,
    describe,
    narrowed_line,
    share_effect,
)
from duetbench.show.formats import WORDY
from duetbench.show.site.charts import CHANGE, Caption, Dot, Value, forest
from duetbench.show.site.flame import flame
from duetbench.show.site.pages.site import PageFile, Site, group, guard, render
from duetbench.show.site.pages.trends import change_card, trend_around
from duetbench.show.site.words import fill
from duetbench.show.view import Section, View, make_view
from duetbench.store.attribution import Attribution
from duetbench.store.change import Change
from duetbench.store.comparison import SIDES, Comparison, Duet, Judgement

_KINDS: Final = {mark: verdict.value.replace(" ", "-") for verdict, mark in formats.MARKS.items()}
"""CSS classes of verdicts by their mark."""
_CHART: Final = "Head over base: every"
_OF_ALL: Final = "and what is said of all"


def pages(site: Site) -> Iterator[PageFile]:
    """Make the lists, a page for each change, attribution and comparison, and the feed."""
    yield from guard(site, addresses.CHANGES, "Changes", partial(_list, site))
    for record in site.changes:
        address, make = addresses.change(record.id), partial(_change_page, site, record)
        yield from guard(site, address, f"Change {record.id}", make)
    for why in site.attributions.values():
        address = addresses.attribution(why.id)
        yield from guard(site, address, f"Attribution {why.id}", partial(_why, site, why))
    yield from _comparisons(site)


def _list(site: Site) -> Iterator[PageFile]:
    yield render(
        site,
        "changes.html.j2",
        addresses.CHANGES,
        "Changes",
        "Where the Python web stack became faster or slower for good, and why.",
        still=[describe(record) for record in site.open_changes],
        over=[describe(record) for record in site.closed_changes],
    )
    yield PageFile(addresses.FEED, feed(site.changes, site.base))


def feed(changes: Iterable[Change], base: str = "") -> str:
    """Write the Atom feed of changes, newest first; the same changes always give the same text.

    `base`: address of the site, with a slash at its end; if empty, links are relative to the feed.
    """
    return fill("changes.atom.j2", base=base, changes=[*map(describe, changes)]) + "\n"


def _change_page(site: Site, record: Change) -> Iterator[PageFile]:
    name, text = record.series, describe(record)
    yield render(
        site,
        "change.html.j2",
        addresses.change(record.id),
        text.sentence,
        f"{text.name}: {text.title} {text.word}, {text.change}, 95 % interval {text.interval}.",
        card=change_card(site, record),
        record=record,
        text=text,
        query=f"?metric={name.metric}" if name.metric in METRICS else "",
        forest=_change_forest(text),
        trend=trend_around(site, record),
        packages=sorted(
            ((move, record.blame(move)) for move in record.packages),
            key=lambda pair: (pair[1] == "no", pair[1] != "yes", pair[0].package),
        ),
        commands=commands(record),
        shares=(
            *map(share_effect, record.shares),
            *([narrowed_line(record.narrowed)] if record.narrowed else ()),
        ),
        why=site.explanations([record]),
    )


def _change_forest(text: ChangeText) -> Markup:
    record = text.record
    dot = Dot(
        f"{text.name} · {text.title}",
        Value(record.interval),
        verdict=record.verdict,
        word=f"{formats.MARKS[record.verdict]} {text.word}",
    )
    about = Caption(
        "evidence",
        "The confirming comparison",
        "After over before, with its 95 % interval. These figures no longer change.",
    )
    return forest(about, CHANGE, {"": [dot]})


def _why(site: Site, record: Attribution) -> Iterator[PageFile]:
    """Show where the instructions of a change are: flame graph and ranked rows."""
    text = AttributionText(record)
    change = next((change for change in site.changes if change.id == record.change), None)
    anchors = {row.row.function: f"#row-{n}" for n, row in enumerate(text.rows, 1)}
    caption = Caption(
        "flame",
        f"Where the {text.unit} of a {'start is' if record.unit == 'seconds' else 'request are'}",
        "The newer side: a frame is a function below its caller. Its width is what the function "
        "and its callees execute; its colour is the change. Frames of ranked functions link to "
        "their rows.",
    )
    yield render(
        site,
        "why.html.j2",
        addresses.attribution(record.id),
        f"Why: {text.headline.partition(':')[0]}",
        text.cause,
        text=text,
        record=record,
        change=describe(change) if change else None,
        chart=flame(caption, record, lambda function: anchors.get(function, "")),
    )


def _comparisons(site: Site) -> Iterator[PageFile]:
    confirmed = group((record.evidence, record) for record in site.changes if record.evidence)
    listed: list[tuple[Comparison, str]] = []

    def make(comparison: Comparison) -> Iterator[PageFile]:
        view, changes = make_view(comparison), confirmed.get(comparison.id, ())
        address = addresses.comparison(comparison.id)
        yield render(
            site,
            "comparison.html.j2",
            address,
            f"{comparison.base.label} → {comparison.head.label}",
            view.headline,
            confirmed=[*map(describe, changes)],
            why=site.explanations(changes, comparison.id),
            **_content(comparison, view, site, addresses.root(addresses.file(address))),
        )
        listed.append((comparison, view.headline))

    for name, comparison in site.comparisons.items():
        address = addresses.comparison(name)
        yield from guard(site, address, f"Comparison {name}", partial(make, comparison))
    yield from guard(site, addresses.COMPARISONS, "Comparisons", partial(_listed, site, listed))


def _listed(site: Site, listed: Sequence[tuple[Comparison, str]]) -> Iterator[PageFile]:
    yield render(
        site,
        "comparisons.html.j2",
        addresses.COMPARISONS,
        "Comparisons",
        "Comparisons that are kept as evidence: two stacks, or two commits, measured together.",
        listed=listed,
    )


def _content(
    comparison: Comparison, view: View, site: Site | None = None, root: str = ""
) -> dict[str, Any]:
    """Return what the template needs; without a site, cases have no links."""
    planned = site.planned if site else frozenset()
    rows_of = group((row.case, row) for row in view.rows)
    samples = [*_cases(comparison), *_inside(comparison)]
    # The order of the report: what moved comes first.
    places = {case: place for place, case in enumerate(rows_of)}
    samples.sort(key=lambda case: places.get(case["id"], len(places)))
    for case in samples:
        rows = rows_of.get(case["id"], ())
        case["verdicts"] = [f"{row.verdict}: {row.label}" for row in rows]
    dots = group(
        (
            TITLES[row.group],
            Dot(
                f"{row.name or row.case} · {row.label}",
                Value(row.judgement.interval),
                href=root + addresses.case(row.case) if row.case in planned else "",
                verdict=row.judgement.verdict,
                word=row.verdict,
            ),
        )
        for row in view.rows
        if row.judgement.ratio is not None
    )
    about = Caption("verdicts", "Verdicts", "Head over base, each with its own 95 % interval.")
    return {
        "comparison": comparison,
        "view": view,
        "wordy": WORDY,
        "kinds": _KINDS,
        "forest": forest(about, CHANGE, dots) if dots else None,
        "samples": samples,
        "method": [(key.replace("_", " "), str(value)) for key, value in comparison.method.items()],
    }


def one_file(comparison: Comparison) -> str:
    """Write a comparison with all duets as one HTML file, without scripts or other files.

    Template, charts and styles are the site's, without links to its other pages.
    """
    style = (Path(__file__).parents[1] / "static" / "site.css").read_text("utf-8")
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
        **_content(comparison, make_view(comparison)),
    )


def _cases(comparison: Comparison) -> Iterator[dict[str, Any]]:
    for place, case in enumerate(comparison.cases):
        name, duets = names.of(case.case), sorted(case.duets, key=lambda duet: duet.order)
        ratios = {
            metric: [_ratio(duet.base.get(metric), duet.head.get(metric)) for duet in duets]
            for metric in (row.metric for row in (*case.judgements, *case.witnesses))
        }
        usable = [duet.usable for duet in duets]
        dots = [
            _dot(formats.title(row.metric), row, compress(ratios[row.metric], usable))
            for row in (*case.judgements, *case.witnesses)
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
    return Dot(title, value, verdict=judgement.verdict, word=word, samples=samples)


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
