"""What stands between a report's headline and its tables: the upgrade, and what could be seen.

For the comments of other repositories, whose readers ask what a bot's pull request does to their
application, on machines that others share. Pure.
"""

from collections.abc import Iterator
from typing import Final

from duetbench.core.metrics import METRICS
from duetbench.github import text
from duetbench.github.upgrades import Upgrade
from duetbench.show import attribution, formats, rows
from duetbench.show.change import causes
from duetbench.show.rows import Groups, ViewRow
from duetbench.store.attribution import Attribution
from duetbench.store.comparison import Comparison, PackageChange

_NAMED: Final = 6  # packages that a sentence names


def preface(
    comparison: Comparison, upgrade: Upgrade | None, explained: Attribution | None = None
) -> str:
    """Paragraphs of Markdown, each ending in a blank line; what others wrote is escaped."""
    found = rows.grouped(comparison)
    said = [*_upgrade(comparison, found, upgrade)] if upgrade is not None else []
    code = [text.report(attribution.brief(explained))] if explained is not None else []
    return "".join(f"{one}\n\n" for one in (*said, *code, *_seen(comparison, found)))


def _upgrade(comparison: Comparison, found: Groups, upgrade: Upgrade) -> Iterator[str]:
    # One package may be in the locks of several stacks.
    moved = tuple(dict.fromkeys(map(_package, comparison.packages)))
    named = text.plain(formats.some(moved, _NAMED)) or "no package that is installed here"
    yield f"**Upgrade**: nothing but locks differs: {named}."
    did = any(row.metric for row in (*found.worse, *found.better))
    if upgrade.cause is not None:
        yield f"**Cause**: {text.plain('; '.join(causes(upgrade.cause)))}."
    elif did and len(moved) == 1:
        yield "**Cause**: no other package moved."
    elif did:
        why = text.plain(upgrade.note).rstrip(".") or "it was not searched for"
        yield f"**Cause**: not known: {why}."


def _package(change: PackageChange) -> str:
    return f"{change.package} {change.base or 'new'} → {change.head or 'gone'}"


def _seen(comparison: Comparison, found: Groups) -> Iterator[str]:
    """The noise that was measured alongside, and what it let be seen; never more."""
    largest: dict[str, float] = {}
    for row in _judged(found):
        largest[row.metric] = max(largest.get(row.metric, 0.0), row.judged.detectable or 0.0)
    if not largest:
        return
    noise = (
        f"the base against itself scatters by {formats.size(comparison.noise)} of CPU per request "
        "from duet to duet"
        if comparison.noise is not None
        else "the base was not held against itself, for lack of time or of need"
    )
    sizes = ", ".join(
        f"{formats.size(size)} of {formats.title(metric)}" for metric, size in largest.items()
    )
    yield (
        f"**Seen on this machine**: {noise}. Had one figure alone moved by as much as {sizes}, it "
        "would have been called in 4 of 5 comparisons like this. Smaller changes may be there."
    )


def _judged(found: Groups) -> Iterator[ViewRow]:
    """Rows of cases with a size that could have been seen, the metrics in their order."""
    known = [row for row in found.all if row.metric and row.judged.detectable is not None]
    for metric in METRICS:
        yield from (row for row in known if row.metric == metric)
