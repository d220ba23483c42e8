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
from duetbench.core.units import Interval
from duetbench.report import formats
from observatory.show import addresses, quoting
from observatory.show.changes import describe
from observatory.show.site.charts import Caption
from observatory.show.site.pages import trends
from observatory.show.site.pages.site import (
    PageFile,
    ReleasedPackage,
    Site,
    explanations,
    group,
    guard,
    render,
)
from observatory.show.site.pages.story import (
    before_after,
    function,
    measurements,
    request_table,
    rows,
    still_there,
    trace,
)
from observatory.trend import releases
from observatory.trend.quotes import Quote
from observatory.trend.releases import START, MeasuredRelease, ReleaseAxis, Result

_FIRST: Final = "Each release alone, since the first, whose error is in the other intervals."


def pages(site: Site) -> Iterator[PageFile]:
    """Make the list, a page for each package, and one for each release that did something."""
    yield from guard(site, addresses.PACKAGES, "Packages", partial(_list, site))
    for package in site.packages.values():
        address, make = addresses.package(package.name), partial(_of_package, site, package)
        yield from guard(site, address, package.name, make)


def _of_package(site: Site, package: ReleasedPackage) -> Iterator[PageFile]:
    yield _package(site, package)
    for version in package.versions:
        yield _release(site, package, version)


def _list(site: Site) -> Iterator[PageFile]:
    by_size = sorted(site.quotes.values(), key=lambda quote: -quote.size)
    measured = [release.when for axis in site.effects for release in axis.measured]
    unknown = [describe(record) for record in site.changes if not site.quote(record)]
    yield render(
        site,
        "packages.html.j2",
        addresses.PACKAGES,
        "Releases",
        "What each release of the Python web stack's packages did to requests.",
        rows=rows(site, by_size),
        unknown=unknown,
        judged=Counter(package for package, _ in site.judged),
        since=min(measured, default=None),
    )
    for record in site.changes:  # issues link these
        address, to = addresses.change(record.id), site.story(record)
        title = quoting.finding_of(record, site.quotes)
        yield render(site, "moved.html.j2", address, title, f"{title}.", to=to)


def _package(site: Site, package: ReleasedPackage) -> PageFile:
    address = addresses.package(package.name)
    own_quotes = (site.quotes[package.name, version] for version in package.versions)
    quotes = sorted(own_quotes, key=lambda quote: -quote.size)
    largest = quotes[0] if quotes else None
    own = sorted(package.axes, key=lambda a: not largest or a.machine.id != largest.machine)
    return render(
        site,
        "package.html.j2",
        address,
        package.name,
        quoting.finding(largest, within=True) + "."
        if largest
        else f"The effect of each measured release of {package.name} on requests.",
        package=package,
        rows=rows(site, quotes),
        judged=sum(name == package.name for name, _ in site.judged),
        locked=group((version, stack) for stack, version in package.locked.items()),
        chart=_chart(site, own[0], largest) if own else None,
        sections=[(axis, site.effects[axis]) for axis in own],
    )


def _chart(site: Site, axis: ReleaseAxis, largest: Quote | None) -> Markup | None:
    """Chart what the largest effect of a package is on, over all its releases; or its first case.

    None without two points.
    """
    metric = largest.metric if largest else CPU
    cases = (case for release in axis.releases for case in release.points)
    case = largest.case if largest else next(cases, "")
    points = sorted(over_first(axis, case, metric), key=lambda point: point[0].when)
    figures = [figure for _, figure, _ in points]
    if len(figures) - figures.count(None) < 2:
        return None
    line = {
        "label": axis.machine.id,
        "kind": "releases",
        "anchor": axis.anchor,
        "run": [release.version for release, *_ in points],
        "time": [int(release.when.timestamp()) for release, *_ in points],
        "status": ["measured" if figure else "failed" for figure in figures],
        "note": [note for *_, note in points],
        "metrics": [
            {
                "name": metric,
                "title": quoting.title(metric),
                "format": "×",
                "mean": [figure and figure.estimate for figure in figures],
                "low": [figure and figure.low for figure in figures],
                "high": [figure and figure.high for figure in figures],
            }
        ],
        "gaps": [],
        "changes": [
            {**mark, "name": mark["name"].removeprefix(f"{axis.package} ")}
            for mark in trends.marks(site, case, metric)
            if mark["name"].startswith(f"{axis.package} ")
        ],
    }
    written = [
        (f"{release.when:%Y-%m-%d}", release.version, formats.change(figure), formats.ends(figure),
         note)
        for release, figure, note in reversed(points)
    ]  # fmt: skip
    about = Caption("releases", f"{quoting.title(metric)}: {case_names.name(case)}", _FIRST)
    config = {"document": {"format": trends.FORMAT, "tables": [line]}, "metric": metric}
    return trends.figure(about, config, "change since the first", written)


def over_first(
    axis: ReleaseAxis, case: str, metric: str
) -> Iterator[tuple[MeasuredRelease, Interval | None, str]]:
    """Return each release over the first that has the case: 1, with its error in the others.

    A release in which it could not be measured has the reason.
    """
    first = None
    for release in axis.releases:
        point = release.point(case, metric)
        if point is None:
            if case in release.missing:
                yield release, None, release.missing[case]
        elif first is None:
            first = point
            yield release, Interval(1.0), "the first"
        else:
            yield release, releases.ratio(first, point), ""


def _release(site: Site, package: ReleasedPackage, version: str) -> PageFile:
    name, address = package.name, addresses.release(package.name, version)
    root = addresses.root(addresses.file(address))
    quote = site.quotes[name, version]
    caused = [record for record in site.changes if record.blames(name, version)]
    told = group((site.quote(record) == quote, record) for record in caused)
    alone = next((record.evidence for record in caused if len(record.releases) == 1), None)
    sections = [
        (axis, release, site.effects[axis].get(version))
        for axis in sorted(package.axes, key=lambda axis: axis.machine.id != quote.machine)
        for release in axis.releases
        if release.version == version
    ]
    return render(
        site,
        "release.html.j2",
        address,
        quoting.finding(quote),
        f"{quoting.finding(quote, within=True)}.",
        package=package,
        quote=quote,
        version=version,
        figures=before_after(site, quote),
        code=function(site, quote),
        seen=request_table(site, quote, alone),
        state=still_there(site, quote),
        sure=measurements(site, quote, root),
        sections=sections,
        neighbours=_neighbours(site, package, version),
        traces=[
            trace(site, record, f"around-{number}" if number else "around")
            for number, record in enumerate(told.get(True, ()))
        ],
        others=told.get(False, ()),
        why=explanations(site.changes, quote.key),
        differences=_differences,
        command=partial(_command, name),
    )


def _neighbours(site: Site, package: ReleasedPackage, version: str) -> list[tuple[str, Quote]]:
    """Return the nearest releases that did something, before and after one."""
    place, names = package.versions.index(version), package.versions
    near = (("Before it", names[:place][-1:]), ("After it", names[place + 1 :][:1]))
    return [(label, site.quotes[package.name, name]) for label, of in near for name in of]


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
    before, after = result.base.stacks, result.head.stacks
    moves = (differences(s, dict(before[s]), dict(after[s])) for s in before.keys() & after.keys())
    return sorted({str(move) for of_stack in moves for move in of_stack})
