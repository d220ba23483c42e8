"""Change points: a list of them, a feed, and for each a frozen page with its evidence.

What a page says comes from the change's record, whose figures do not move any more; the trend
around it comes from run files, which do not either.
"""

import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup

from duetbench.core.metrics import METRICS
from duetbench.core.model import Verdict
from duetbench.show import formats as verdicts
from duetbench.show.attribution import FIRST
from duetbench.show.change import ChangeText, commands, describe, narrowed_line, share_effect
from duetbench.show.site.charts import forest
from duetbench.show.site.charts.figure import Caption, Value
from duetbench.show.site.charts.forest import CHANGE, DotGroup, Forest
from duetbench.show.site.pages import addresses, why, words
from duetbench.show.site.pages.page import PageFile, filled, render
from duetbench.show.site.pages.site import Site
from duetbench.show.site.pages.trends import trend_around
from duetbench.store.change import Change
from duetbench.store.comparison import PackageChange

_UNKNOWN_FLOOR: Final = 0.01  # relevance floor of benchmarks inside the process


def pages(site: Site) -> Iterator[PageFile]:
    """The list, and one page for each change."""
    still, over = listed(site.changes)
    yield render(
        site,
        "changes.html.j2",
        addresses.CHANGES,
        "Changes",
        "Where the Python web stack became faster or slower for good, and why.",
        still=[describe(record) for record in still],
        over=[describe(record) for record in over],
    )
    for record in site.changes:
        yield _page(site, record)
    yield PageFile(addresses.FEED, feed(site.changes, site.base))


def may_be(record: Change, package: str) -> bool:
    """Whether a change may be a package's: it was found to be, or nothing says that it is not."""
    moves = [one for one in record.packages if one.package == package]
    return not moves or blame(record, moves[0]) != "no"


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
            entries=[(one, feed_title(one), words.moved(one.packages)) for one in newest],
        )
        + "\n"
    )


def feed_title(record: Change) -> str:
    """The change in a sentence: what, by how much, how surely, since when, because of what."""
    text = describe(record)
    sentence = f"{text.releases}: {text.sentence}" if text.releases else text.sentence
    return f"{sentence} [closed]" if record.status == "closed" else sentence


def listed(
    records: Iterable[Change],
) -> tuple[tuple[Change, ...], tuple[Change, ...]]:
    """Open changes, the worst first; and closed ones, in the order given."""
    found = tuple(records)
    still = sorted((one for one in found if one.status == "open"), key=_weight, reverse=True)
    return tuple(still), tuple(one for one in found if one.status == "closed")


def _weight(record: Change) -> tuple[bool, float]:
    """Worse before better, and what is furthest beyond its relevance floor first."""
    row = METRICS.get(record.series.metric)
    floor = (row.floor if row else 0) or _UNKNOWN_FLOOR
    return record.verdict is Verdict.SLOWER, abs(math.log(record.ratio)) / floor


def _page(site: Site, record: Change) -> PageFile:
    name, text = record.series, describe(record)
    before, after = (
        None if run not in site.headers else site.headers[run].time
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
            ((one, blame(record, one)) for one in record.packages),
            key=lambda pair: (pair[1] == "no", pair[1] != "yes", pair[0].package),
        ),
        commands=commands(record, before, after),
        shares=(
            *map(share_effect, record.shares),
            *([narrowed_line(record.narrowed)] if record.narrowed else ()),
        ),
        why=why.of_change(site, record),
        most_rows=FIRST,
    )


def blame(record: Change, package: PackageChange) -> str:
    """Whether a package did it: `no` only where a search tried the change without it."""
    found = [release for share in record.shares for release in share.releases]
    if package.package in {one.package for one in (*found, record.culprit) if one}:
        return "yes"
    suspected = record.suspects
    if not suspected and record.culprit is None:
        return "not tested"
    return "possible" if package.package in suspected else "no"


def _forest(text: ChangeText) -> Markup:
    record = text.record
    dot = forest.change(
        f"{record.series.case} · {text.title}",
        Value.of(record.interval),
        record.verdict,
        f"{verdicts.MARKS[record.verdict]} {text.word}",
    )
    about = Caption(
        "evidence",
        "The confirming comparison",
        "After over before, with its 95 % interval. These figures do not move any more.",
    )
    return forest.forest(Forest(about, CHANGE, (DotGroup("", (dot,)),), "change"))
