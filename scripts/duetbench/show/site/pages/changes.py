"""Change points: a list, a feed, and of each a frozen page with its evidence; their attributions.

What a page says comes from records and run files, whose figures do not move any more.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import partial

from markupsafe import Markup

from duetbench.core.metrics import METRICS
from duetbench.show import addresses, formats
from duetbench.show import attribution as attribution_text
from duetbench.show.change import ChangeText, commands, describe, narrowed_line, share_effect
from duetbench.show.site import words
from duetbench.show.site.charts import CHANGE, Caption, Dot, Value, forest
from duetbench.show.site.flame import flame
from duetbench.show.site.pages.site import PageFile, Site, render
from duetbench.show.site.pages.trends import trend_around
from duetbench.show.site.words import filled
from duetbench.store.attribution import Attribution, Function, Row
from duetbench.store.change import Change


def pages(site: Site) -> Iterator[PageFile]:
    """The list, one page for each change and for each attribution, and the feed."""
    yield render(
        site,
        "changes.html.j2",
        addresses.CHANGES,
        "Changes",
        "Where the Python web stack became faster or slower for good, and why.",
        still=[describe(record) for record in site.open_changes],
        over=[describe(record) for record in site.closed_changes],
    )
    for record in site.changes:
        yield _page(site, record)
    yield PageFile(addresses.FEED, feed(site.changes, site.base))
    for attribution in site.attributions.values():
        yield _why(site, attribution)


def feed(changes: Iterable[Change], base: str = "") -> str:
    """The Atom feed, newest change first; the same changes always give the same text.

    `base`: Address of the site with a slash at its end; empty: links are relative to the feed.
    """
    newest = sorted(changes, key=lambda record: (record.when, record.id), reverse=True)
    return (
        filled(
            "changes.atom.j2",
            base=base,
            updated=newest[0].when if newest else datetime.fromtimestamp(0, UTC),
            entries=[
                (record, feed_title(record), words.moved(record.packages)) for record in newest
            ],
        )
        + "\n"
    )


def feed_title(record: Change) -> str:
    """The change in a sentence: what, by how much, how surely, since when, because of what."""
    text = describe(record)
    sentence = f"{text.releases}: {text.sentence}" if text.releases else text.sentence
    return f"{sentence} [closed]" if record.status == "closed" else sentence


def _page(site: Site, record: Change) -> PageFile:
    name, text = record.series, describe(record)
    before, after = (
        None if run not in site.nights else site.nights[run].time
        for run in (record.before_run or "", record.after_run or "")
    )
    return render(
        site,
        "change.html.j2",
        addresses.change(record.id),
        text.sentence,
        f"{text.name}: {text.title} {text.word}, {text.change}, 95 % interval {text.interval}.",
        record=record,
        text=text,
        query=f"?metric={name.metric}" if name.metric in METRICS else "",
        forest=_forest(text),
        trend=trend_around(site, record),
        packages=sorted(
            ((move, record.blame(move)) for move in record.packages),
            key=lambda pair: (pair[1] == "no", pair[1] != "yes", pair[0].package),
        ),
        commands=commands(record, before, after),
        shares=(
            *map(share_effect, record.shares),
            *([narrowed_line(record.narrowed)] if record.narrowed else ()),
        ),
        why=site.explanations([record]),
        most_rows=attribution_text.FIRST,
    )


def _forest(text: ChangeText) -> Markup:
    record = text.record
    dot = Dot(
        f"{record.series.case} · {text.title}",
        Value(record.interval),
        verdict=record.verdict,
        word=f"{formats.MARKS[record.verdict]} {text.word}",
    )
    about = Caption(
        "evidence",
        "The confirming comparison",
        "After over before, with its 95 % interval. These figures do not move any more.",
    )
    return forest(about, CHANGE, {"": [dot]})


def _why(site: Site, record: Attribution) -> PageFile:
    """Where the instructions of a change are: flame graph, ranked rows, what they are good for."""
    text = attribution_text.describe(record)
    change = next((change for change in site.changes if change.id == record.change), None)
    caption = Caption(
        "flame",
        "Where the instructions of a request are",
        "The newer side: a frame is a function, as wide as what it and all that it calls execute, "
        "below its caller, in the order of names. Colour is change. Those of ranked functions lead "
        "to their row.",
    )
    return render(
        site,
        "why.html.j2",
        addresses.attribution(record.id),
        f"Why: {text.headline.partition(':')[0]}",
        text.cause,
        text=text,
        record=record,
        change=describe(change) if change else None,
        source=partial(_source, site, record),
        chart=flame(caption, record, partial(_anchor, attribution_text.moved_rows(record))),
    )


def _source(site: Site, record: Attribution, row: Row) -> str:
    """Where a row's function is in its release's source, on the side that has it; or empty."""
    function = row.function
    package = site.packages.get(function.package)
    moved = next((move for move in record.packages if move.package == function.package), None)
    version = moved and (moved.base if row.state == "went" else moved.head)
    if package is None or not version or not function.line:
        return ""
    return package.links(version).line(version, function.file, function.line) or ""


def _anchor(rows: Iterable[Row], function: Function) -> str:
    """Where a function's row is on the page; empty: it has none."""
    numbered = (n for n, row in enumerate(rows, 1) if row.function == function)
    return next((f"#row-{n}" for n in numbered), "")
