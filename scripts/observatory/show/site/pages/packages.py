"""Packages over their releases, and the effect of each release."""

import glob
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Final

from markupsafe import Markup

from duetbench.app import case_names
from duetbench.core import units
from duetbench.core.comparison import PackageChange, differences
from duetbench.core.metrics import CPU, METRICS
from duetbench.core.model import Verdict
from duetbench.core.units import Interval
from duetbench.report import formats
from duetbench.report.html import charts
from duetbench.report.html.charts import Caption, Dot
from observatory.show import addresses, quoting
from observatory.show.site import plots
from observatory.show.site.pages.site import PageFile, ReleasedPackage, Site, group, guard, render
from observatory.show.site.pages.story import (
    before_after,
    elsewhere,
    function,
    measurements,
    release_explanations,
    request_table,
    rows,
    trace,
)
from observatory.show.site.plots import PlotPoint, Quantity, Value
from observatory.show.site.words import figure
from observatory.trend import releases
from observatory.trend.quotes import Quote
from observatory.trend.releases import START, MeasuredRelease, ReleaseAxis, ReleaseEffect, Result

_FIRST: Final = "Each release relative to the first (1 ×), whose error is in the other intervals."
_MOST: Final = 10  # releases that are drawn on a package's page


def pages(site: Site) -> Iterator[PageFile]:
    """Make the list, a page for each package, and one for each release that did something."""
    yield from guard(site, addresses.PACKAGES, "Packages", partial(_list, site))
    for package in filter(attrgetter("has_page"), site.packages.values()):
        address, make = addresses.package(package.name), partial(_of_package, site, package)
        yield from guard(site, address, package.name, make)


def _of_package(site: Site, package: ReleasedPackage) -> Iterator[PageFile]:
    yield _package(site, package)
    for version in package.versions:
        yield _release(site, package, version)


def _list(site: Site) -> Iterator[PageFile]:
    packages = [package for package in site.packages.values() if package.axes]
    by_size = sorted(site.quotes.values(), key=lambda quote: (not quote.reaches_limit, -quote.size))
    yield render(
        site,
        "packages.html.j2",
        addresses.PACKAGES,
        "Releases",
        "What each release of the Python web stack's packages did to requests.",
        rows=rows(site, by_size),
        packages=[(package, _of(site, package)) for package in packages],
        judged=Counter(package for package, _ in site.judged),
        since=min(
            (release.when for axis in site.effects for release in axis.measured), default=None
        ),
    )


def _of(site: Site, package: ReleasedPackage) -> list[Quote]:
    """Return the quotes of a package, the newest first."""
    return [quote for quote in site.quotes.values() if quote.package == package.name]


def _rows(site: Site, axis: ReleaseAxis) -> list[tuple[MeasuredRelease, Result | None]]:
    """Return the releases, newest first, each with its effect over the one before."""
    known = site.effects[axis]
    return [(release, known.get(release.version)) for release in axis.releases[::-1]]


def _package(site: Site, package: ReleasedPackage) -> PageFile:
    address = addresses.package(package.name)
    root = addresses.root(addresses.file(address))
    quotes = sorted(_of(site, package), key=lambda quote: (not quote.reaches_limit, -quote.size))
    largest = quotes[0] if quotes else None
    return render(
        site,
        "package.html.j2",
        address,
        package.name,
        quoting.finding(largest, within=True) + "."
        if largest
        else f"The effect of each measured release of {package.name} on requests.",
        package=package,
        rows=rows(site, quotes[:_MOST]),
        more=quotes[_MOST:],
        judged=sum(name == package.name for name, _ in site.judged),
        locked=group((version, stack) for stack, version in package.locked.items()),
        links=package.labelled_links(),
        sections=[
            (axis, _rows(site, axis), [*_moved(site, root, number, axis)])
            for number, axis in enumerate(
                sorted(package.axes, key=lambda a: not largest or a.machine.id != largest.machine)
            )
        ],
    )


def _moved(site: Site, root: str, number: int, axis: ReleaseAxis) -> Iterator[Markup]:
    """Chart each endpoint that a release moved, servers and the largest changes first.

    A chart has a line for each interpreter, and a mark at each release that moved one. If nothing
    moved, the first endpoint shows that.
    """
    cases = {case.case: case for release in axis.releases for case in release.points.values()}
    endpoints = group((endpoint(case.case, case.python), case) for case in cases.values())
    names_of = {case.case: name for name, many in endpoints.items() for case in many}
    effects = group(
        (names_of[effect.case], (result, effect))
        for result in site.effects[axis].values()
        for effect in result.moved
    )

    def weight(name: str) -> tuple[bool, float, str]:
        sizes = [(effect.metric != CPU, -effect.size) for _, effect in effects.get(name, ())]
        return (*min(sizes, default=(True, 0.0)), name)

    versions = [release.version for release in axis.releases]
    for place, name in enumerate(sorted(endpoints, key=weight)):
        if place and name not in effects:
            continue
        of_endpoint = endpoints[name]
        has = {point.metric for case in of_endpoint for point in case.points}
        metric = next((metric for metric in (CPU, START) if metric in has), "seconds")
        its = case_names.name(of_endpoint[0].case)
        label = ", ".join(filter(None, (its.what, its.server, its.rest * (metric != START))))
        yield plots.plot(
            Caption(f"endpoint-{number}-{place}", label if its.known else name, _FIRST),
            Quantity("release", units.plain),
            Quantity(f"{_title(metric)}, times the first release's", units.plain, "×"),
            {
                case.python: [*over_first(site, root, axis, case.case, metric)]
                for case in sorted(of_endpoint, key=lambda case: case.python)
            },
            names=versions,
            marks=_marks(site, root, axis, versions, effects.get(name, ())),
        )


def _marks(
    site: Site,
    root: str,
    axis: ReleaseAxis,
    versions: Sequence[str],
    effects: Sequence[tuple[Result, ReleaseEffect]],
) -> Iterator[Mapping[str, Any]]:
    """Mark each release that moved the endpoint: with its size, if it is quoted of that."""
    largest = {result.head.version: effect for result, effect in reversed(effects)}
    for version, effect in largest.items():
        if quote := site.quotes.get((axis.package, version)):
            own = (quote.metric, endpoint(quote.case, quote.python)) == (
                effect.metric,
                endpoint(effect.case, effect.python),
            )
            verdict = quote.verdict if own else effect.verdict or Verdict.UNKNOWN
            size = formats.change(quote.ratio)
            yield {
                "x": versions.index(version),
                "kind": "change",
                "tone": charts.TONES.get(verdict, "open"),
                "short": size if own else verdict.sign,
                "by": version,
                "weight": effect.size,
                "label": f"{quoting.finding(quote, within=True)}, over {quote.previous}",
                "href": root + addresses.release(axis.package, version),
            }


def _title(metric: str) -> str:
    return METRICS[metric].title if metric in METRICS else "time of a call"


def address(site: Site, package: str, version: str) -> str:
    """Return where a release is: its page, or its row on that of the package."""
    if (package, version) in site.quotes:
        return addresses.release(package, version)
    return f"{addresses.package(package)}#{version}"


def endpoint(case: str, python: str) -> str:
    """Return the id of a case without its interpreter: `asgi-wsgi/json/w1/c128`."""
    return "/".join(part for part in case.split("/") if part != f"py{python}")


def over_first(
    site: Site, root: str, axis: ReleaseAxis, case: str, metric: str
) -> Iterator[PlotPoint]:
    """Return each release over the first that has the case: 1, with its error in the others.

    No line crosses a release in which the case was not measured.
    """
    first, cut = None, False
    for place, release in enumerate(axis.releases):
        point = release.point(case, metric)
        if point is None and case not in release.missing:
            cut = True
            continue
        if point is None:
            value = Value(None, note=release.missing[case])
        elif first is None:
            first, value = point, Value(Interval(1.0), note="the first")
        else:
            value = Value(releases.ratio(first, point))
        href = root + address(site, axis.package, release.version)
        yield PlotPoint(float(place), value, href, cut)
        cut = False


def _release(site: Site, package: ReleasedPackage, version: str) -> PageFile:
    name, address = package.name, addresses.release(package.name, version)
    root = addresses.root(addresses.file(address))
    quote = site.quotes[name, version]
    caused = [record for record in package.changes if record.blames(name, version)]
    told = group((site.story(record) == address, record) for record in caused)
    alone = next((record.evidence for record in caused if len(record.releases) == 1), None)
    sections = [
        (axis, release, result, _forest(site, root, number, result) if result else None)
        for number, axis in enumerate(package.axes)
        for release in axis.releases
        if release.version == version
        for result in (site.effects[axis].get(version),)
    ]
    sections.sort(key=lambda section: section[0].machine.id != quote.machine)
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
        links=package.labelled_links(version, quote.previous),
        seen=request_table(site, quote, alone),
        sure=measurements(site, quote, root),
        sections=sections,
        elsewhere=elsewhere(site, quote),
        neighbours=_neighbours(site, package, version),
        traces=[
            trace(site, record, f"around-{number}" if number else "around")
            for number, record in enumerate(told.get(True, ()))
        ],
        others=told.get(False, ()),
        why=release_explanations(site, name, version),
        differences=_differences,
        command=partial(_command, name),
    )


def _neighbours(site: Site, package: ReleasedPackage, version: str) -> list[tuple[str, Quote]]:
    """Return the nearest releases that did something, before and after one."""
    place, names = package.versions.index(version), package.versions
    near = (("Before it", names[:place][-1:]), ("After it", names[place + 1 :][:1]))
    return [(label, site.quotes[package.name, name]) for label, of in near for name in of]


def _forest(site: Site, root: str, number: int, result: Result) -> Markup:
    """Draw the effects of a release: what moved, largest first, and what did not."""
    main = sorted(result.main, key=lambda effect: (-effect.size, effect.case))
    undecided = [effect for effect in main if effect.verdict is Verdict.UNKNOWN]
    visible = sorted(effect.detectable or 0.0 for effect in undecided)
    sizes = " to ".join(dict.fromkeys(map(formats.size, (*visible[:1], *visible[-1:]))))
    groups = {
        "Moved": [effect for effect in main if effect.moved],
        f"Unknown; would have been seen: {sizes}": undecided,
        "Same": [effect for effect in main if effect.verdict is Verdict.SAME],
        "Other figures that moved": [effect for effect in result.others if effect.moved],
    }
    about = Caption(
        f"main-{number}",
        "; ".join(dict.fromkeys(_title(effect.metric) for effect in result.main)),
        f"{result.head.version} over {result.base.version}.",
    )
    dots = {
        title: [_dot(site, root, effect) for effect in effects]
        for title, effects in groups.items()
        if effects
    }
    samples = " or ".join(sorted({effect.samples for effect in result.main}))
    return charts.forest(about, dots, repeats=samples)


def _dot(site: Site, root: str, effect: ReleaseEffect) -> Dot:
    return Dot(
        figure(effect.case, effect.metric),
        effect.ratio,
        effect.verdict or Verdict.UNKNOWN,
        note=_seen(effect),
        href=root + addresses.case(effect.case) if effect.case in site.planned else "",
    )


def _seen(effect: ReleaseEffect) -> str:
    if effect.levels is None:
        return f"{formats.size(effect.detectable)} would have been seen"
    return "levels of {} and {} {}".format(*effect.levels, effect.samples)


def _command(name: str, result: Result) -> str:
    """Make the command that compares both releases, on the case that moved most if any did."""
    effect = next((effect for effect in result.moved if effect.metric in {CPU, START}), None)
    sides = ("--base", f"{name}=={result.base.version}", "--head")
    select = ("--select", glob.escape(effect.case)) if effect else ()
    start = ("--start", "--profile", "nightly") if effect and effect.metric == START else ()
    words = ("observatory", "compare", *sides, f"{name}=={result.head.version}", *start, *select)
    return shlex.join(words)


def _differences(result: Result) -> list[tuple[PackageChange, list[str]]]:
    """Return what differs between the locks of two releases, and in which stacks."""
    moves: dict[tuple[str, str | None, str | None], tuple[PackageChange, list[str]]] = {}
    for stack in sorted(result.base.stacks.keys() & result.head.stacks.keys()):
        before, after = (dict(release.stacks[stack]) for release in (result.base, result.head))
        for move in differences(stack, before, after):
            moves.setdefault((move.package, move.base, move.head), (move, []))[1].append(stack)
    return list(moves.values())
