"""All releases, a package over its releases, and the effect of each release."""

import glob
import shlex
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Final

from markupsafe import Markup

from duetbench.app import case_names
from duetbench.core.comparison import differences
from duetbench.core.metrics import CPU
from observatory.show import addresses, quoting
from observatory.show.site.charts import Caption
from observatory.show.site.pages import story, trends
from observatory.show.site.pages.site import (
    PageFile,
    ReleasedPackage,
    Site,
    explanations,
    group,
    guard,
    render,
)
from observatory.trend.quotes import Quote
from observatory.trend.releases import START, ReleaseAxis, Result
from observatory.trend.table import points, tables

_FIRST: Final = "Each release alone, with the 95 % interval of its ratio to the fixed stack."


def pages(site: Site) -> Iterator[PageFile]:
    """Make the list, a page for each package, and one for each release that did something."""
    yield from guard(site, addresses.PACKAGES, "Packages", partial(_list, site))
    for package in site.packages.values():
        address, make = addresses.package(package.name), partial(_of_package, site, package)
        yield from guard(site, address, package.name, make)


def _list(site: Site) -> Iterator[PageFile]:
    by_size = sorted(site.quotes.values(), key=lambda quote: -quote.size)
    measured = (release.when for axis in site.effects for release in axis.measured)
    yield render(
        site,
        "packages.html.j2",
        addresses.PACKAGES,
        "Releases",
        "What each release of the Python web stack's packages did to requests.",
        rows=story.rows(site, by_size),
        unknown=[record for record in site.changes if not site.quote(record)],
        judged=Counter(package for package, _ in site.judged),
        since=min(measured, default=None),
    )
    for record in site.changes:  # issues link these
        title = quoting.finding_of(record, site.quotes)
        address, to = addresses.change(record.id), site.story(record)
        yield render(site, "moved.html.j2", address, title, f"{title}.", to=to)


def _of_package(site: Site, package: ReleasedPackage) -> Iterator[PageFile]:
    own = (site.quotes[package.name, version] for version in package.versions)
    quotes = sorted(own, key=lambda quote: -quote.size)
    largest = quotes[0] if quotes else None
    axes = sorted(package.axes, key=lambda a: not largest or a.machine.id != largest.machine)
    yield render(
        site,
        "package.html.j2",
        addresses.package(package.name),
        package.name,
        quoting.finding(largest, within=True) + "."
        if largest
        else f"The effect of each measured release of {package.name} on requests.",
        package=package,
        rows=story.rows(site, quotes),
        judged=sum(name == package.name for name, _ in site.judged),
        locked=group((version, stack) for stack, version in package.locked.items()),
        chart=_chart(site, axes[0], largest) if axes else None,
        sections=[(axis, site.effects[axis]) for axis in axes],
    )
    for quote in quotes:
        yield _release(site, package, quote)


def _chart(site: Site, axis: ReleaseAxis, largest: Quote | None) -> Markup | None:
    """Chart what the largest effect of a package is on, over all its releases; or its first case.

    None without two points.
    """
    metric = largest.metric if largest else CPU
    cases = (case.case for release in axis.releases for case in release.cases)
    case = largest.case if largest else next(cases, "")
    (table,) = tables(axis.releases)
    known = case in table.cases and metric in table.metrics
    if not known or sum(bool(point.figure) for point in points(table, case, metric)) < 2:
        return None
    of = table.planned_nights(case)
    document = trends.document(site, case, {table: of}, metric)
    own = f"{axis.package} "
    for line in document["tables"]:
        marks = [mark for mark in line["changes"] if mark["name"].startswith(own)]
        line["changes"] = [{**mark, "name": mark["name"].removeprefix(own)} for mark in marks]
    about = Caption("releases", f"{quoting.title(metric)}: {case_names.name(case)}", _FIRST)
    config = {"document": document, "metric": metric, "releases": True}
    return trends.chart(about, config, case, table, of)


def _release(site: Site, package: ReleasedPackage, quote: Quote) -> PageFile:
    name, version = quote.key
    address = addresses.release(name, version)
    caused = [record for record in site.changes if record.blames(name, version)]
    own = [record for record in caused if site.quote(record) == quote]
    alone = next((record.evidence for record in caused if len(record.releases) == 1), None)
    return render(
        site,
        "release.html.j2",
        address,
        quoting.finding(quote),
        f"{quoting.finding(quote, within=True)}.",
        package=package,
        quote=quote,
        figures=story.before_after(site, quote),
        code=story.function(site, quote),
        seen=story.request_table(site, quote, alone),
        state=story.still_there(site, quote),
        sure=story.measurements(site, quote, addresses.root(addresses.file(address))),
        sections=[
            (axis, result, _command(name, result), _differences(result))
            for axis, result in story.results(site, quote)
        ],
        traces=own,
        others=[record for record in caused if record not in own],
        why=explanations(site.changes, quote.key),
    )


def _command(name: str, result: Result) -> str:
    """Make the command that compares both releases, on the case that moved most if any did."""
    effect = next((effect for effect in result.moved if effect.metric in {CPU, START}), None)
    sides = ("--base", f"{name}=={result.base.version}", "--head")
    select = ("--select", glob.escape(effect.case)) if effect else ()
    start = ("--start", "--profile", "nightly") if effect and effect.metric == START else ()
    words = ("observatory", "compare", *sides, f"{name}=={result.head.version}", *start, *select)
    return shlex.join(words)


def _differences(result: Result) -> list[str]:
    """Return what differs between the locks of two releases, in any stack."""
    before = {stack.name: stack.packages for stack in result.base.stacks}
    after = {stack.name: stack.packages for stack in result.head.stacks}
    moves = (differences(s, before[s], after[s]) for s in before.keys() & after.keys())
    return sorted({str(move) for of_stack in moves for move in of_stack})
