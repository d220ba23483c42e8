"""Packages over their releases, and the effect of each release."""

import glob
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cache, partial
from itertools import chain, pairwise
from typing import Any, Final

from markupsafe import Markup

from duetbench.core import units
from duetbench.core.metrics import CPU, METRICS
from duetbench.core.model import Verdict
from duetbench.core.units import Interval
from duetbench.project import case_names
from duetbench.show import formats
from duetbench.show.change import AttributionText, ChangeText, RowText, describe
from duetbench.show.html import charts
from duetbench.show.html.charts import CHANGE, Caption, Dot, Quantity, Value, group
from duetbench.show.html.words import day
from duetbench.store.comparison import PackageChange, differences
from observatory.show import addresses
from observatory.show.site import plots
from observatory.show.site.pages.site import Card, PageFile, ReleasedPackage, Site, guard, render
from observatory.show.site.plots import PlotPoint
from observatory.show.site.words import figure
from observatory.trend import releases
from observatory.trend.releases import START, MeasuredRelease, ReleaseAxis, ReleaseEffect, Result

_FIRST: Final = "Each release relative to the first (1 ×), whose error is in the other intervals."
_YEAR: Final = timedelta(days=400)
"""Releases that came out longer before the newest are not among the largest steps."""
_LARGEST: Final = 10  # rows of the largest steps
_FEW: Final = 5  # of them on a package's page


def pages(site: Site) -> Iterator[PageFile]:
    """Make the list, a page for each package, and one for each of its releases."""
    yield from guard(site, addresses.PACKAGES, "Packages", partial(_list, site))
    for package in site.packages.values():
        address, make = addresses.package(package.name), partial(_of_package, site, package)
        yield from guard(site, address, package.name, make)


def _of_package(site: Site, package: ReleasedPackage) -> Iterator[PageFile]:
    yield _package(site, package)
    for version in package.versions:
        yield _release(site, package, version)


@cache
def _results(axis: ReleaseAxis) -> Mapping[str, Result]:
    return axis.results()


def _list(site: Site) -> Iterator[PageFile]:
    packages = site.packages.values()
    yield render(
        site,
        "packages.html.j2",
        addresses.PACKAGES,
        "Packages",
        "The effect of each release of the Python web stack's packages on requests.",
        **_year(site),
        measured=[(package, *_newest(package.axes[0])) for package in packages if package.axes],
        others=[package for package in packages if not package.axes],
    )


def _year(site: Site) -> dict[str, Any]:
    """Return the releases of the newest year that moved a case, the largest step first.

    All steps are one family, and starts have their own table. A release has the effect that `did`
    names, on the machine where that is largest, then that of the same step and case on others.
    """
    axes = [axis for package in site.packages.values() for axis in package.axes]
    newest = max((release.when for axis in axes for release in axis.measured), default=None)
    steps = [
        (axis, step)
        for axis in axes
        for step in pairwise(axis.measured)
        if newest and newest - step[1].when < _YEAR
    ]
    results = releases.results(steps)
    known = group(
        ((axis.package, result.head.version), (axis, result))
        for (axis, _), result in zip(steps, results, strict=True)
    )
    found = group(chain(*(_steps(site, *release, on) for release, on in known.items())))
    tables = {"": found.get(False, ()), "Starts without load": found.get(True, ())}
    return {
        "tables": {title: _ranked(steps) for title, steps in tables.items()},
        "moved": sum(any(result.moved for _, result in on) for on in known.values()),
        "judged": len(known),
        "since": min((head.when for _, (_, head) in steps), default=None),
    }


_Step = tuple[str, Result, list[tuple[ReleaseAxis, ReleaseEffect]], RowText | None]
"""A package, its release, the same effect on each machine, and the function behind it."""


def _steps(
    site: Site, name: str, version: str, on: Sequence[tuple[ReleaseAxis, Result]]
) -> Iterator[tuple[bool, _Step]]:
    """Return a release's largest effect, on requests and on starts (True), of those that moved."""
    moved: dict[tuple[bool, int], tuple[ReleaseAxis, Result, ReleaseEffect]] = {}
    for place, (axis, result) in enumerate(on):
        for effect in result.moved:
            moved.setdefault((effect.metric == START, place), (axis, result, effect))
    for starts, found in group((starts, step) for (starts, _), step in moved.items()).items():
        first, result, effect = max(found, key=lambda step: step[2].size)
        others = [
            (axis, same)
            for axis, other in on
            if axis is not first and other.base.version == result.base.version
            for same in other.main
            if (same.case, same.metric) == (effect.case, effect.metric)
        ]
        function = _function(site, name, version, starts)
        yield starts, (name, result, [(first, effect), *others], function)


def _ranked(steps: Iterable[_Step]) -> list[_Step]:
    return sorted(steps, key=lambda step: -step[2][0][1].size)[:_LARGEST]


def _function(site: Site, name: str, version: str, starts: bool) -> RowText | None:
    """Return the function with the largest share of a release's effect on requests or imports.

    Functions of other packages that moved are left out, unless they can only move together.
    """
    causes = ({one.package for one in share.releases} for c in site.changes for share in c.shares)
    together = {name}.union(*(packages for packages in causes if name in packages))
    for text in _why(site, name, version):
        if (text.record.unit == "seconds") is not starts:
            continue
        if text.releases and text.releases[0].version != version:
            continue  # it counts a change that is mostly another release's
        moved = {move.package for move in text.record.packages} - together
        for row in text.rows:
            if row.row.share > 0 and row.row.function.package not in moved:
                return row
    return None


def _why(site: Site, name: str, version: str) -> list[AttributionText]:
    """Return the attributions of a release, or of the changes that it caused."""
    changes = (record for record in site.changes if record.blames(name, version))
    axes = site.packages[name].axes if name in site.packages else ()
    steps = [result for axis in axes if (result := _results(axis).get(version))]
    brought = [{(move.package, move.head) for move, _ in _differences(step)} for step in steps]
    return site.explanations(changes, releases=[{(name, version)}, *brought])


def _rows(axis: ReleaseAxis) -> list[tuple[MeasuredRelease, Result | None]]:
    """Return the releases, newest first, each with its effect over the one before."""
    return [(release, _results(axis).get(release.version)) for release in axis.releases[::-1]]


def _newest(axis: ReleaseAxis) -> tuple[MeasuredRelease, Result | None]:
    rows = _rows(axis)
    return next((row for row in rows if row[0].points), rows[0])


def _largest(axis: ReleaseAxis) -> tuple[list[Result], int, int]:
    """Return the largest steps, and how many releases moved a case, of how many."""
    moved = [result for result in _results(axis).values() if result.moved]
    moved.sort(key=lambda result: -result.moved[0].size)
    return moved[:_FEW], len(moved), len(_results(axis))


def _package(site: Site, package: ReleasedPackage) -> PageFile:
    address = addresses.package(package.name)
    root = addresses.root(addresses.file(address))
    rows = ((axis, *row) for axis in package.axes for row in _rows(axis))
    moved = next((row for row in rows if row[2] and row[2].moved), None)
    return render(
        site,
        "package.html.j2",
        address,
        package.name,
        f"The effect of each measured release of {package.name} on requests.",
        card=_card(moved[0], moved[2]) if moved and moved[2] else None,
        moved=moved,
        package=package,
        locked=group((version, stack) for stack, version in package.locked.items()),
        links=_links(package),
        sections=[
            (axis, _rows(axis), [*_moved(root, number, axis)], _largest(axis))
            for number, axis in enumerate(package.axes)
        ],
        changes=_changes(package),
    )


def _links(
    package: ReleasedPackage, version: str = "", before: str | None = None
) -> list[tuple[str, str]]:
    """Return labels and addresses of links in the package's own metadata."""
    metadata = package.links(version)
    links = [(kind.capitalize(), address) for kind, address in metadata.links.items()]
    compared = metadata.differences(before, version) if before else None
    return [*links, *([(f"Source, {before} to {version}", compared)] if compared else [])]


def _changes(
    package: ReleasedPackage, version: str = ""
) -> list[tuple[ChangeText, PackageChange | None, str]]:
    """Return changes that a package may have caused, its move, and whether it is the cause."""
    changes = []
    for record in package.changes:
        if version and not record.blames(package.name, version):
            continue
        move = next((move for move in record.packages if move.package == package.name), None)
        if record.may_be_of(package.name):
            blame = record.blame(move) if move else "yes"
            changes.append((describe(record), move, blame))
    return changes


def _moved(root: str, number: int, axis: ReleaseAxis) -> Iterator[Markup]:
    """Chart each endpoint that a release moved, servers and the largest changes first.

    A chart has a line for each interpreter, and a mark at each release that moved one. If nothing
    moved, the first endpoint shows that.
    """
    cases = {case.case: case for release in axis.releases for case in release.points.values()}
    endpoints = group((endpoint(case.case, case.python), case) for case in cases.values())
    names_of = {case.case: name for name, many in endpoints.items() for case in many}
    effects = group(
        (names_of[effect.case], (result, effect))
        for result in _results(axis).values()
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
                case.python: [*over_first(root, axis, case.case, metric)]
                for case in sorted(of_endpoint, key=lambda case: case.python)
            },
            names=versions,
            marks=_marks(root, axis, versions, effects.get(name, ())),
        )


def _marks(
    root: str,
    axis: ReleaseAxis,
    versions: Sequence[str],
    effects: Sequence[tuple[Result, ReleaseEffect]],
) -> Iterator[Mapping[str, Any]]:
    """Mark each release with the largest of its effects."""
    largest = {result.head.version: (result, effect) for result, effect in reversed(effects)}
    for version, (result, effect) in largest.items():
        verdict = effect.verdict or Verdict.INCONCLUSIVE
        size = formats.change(effect.ratio)
        yield {
            "x": versions.index(version),
            "kind": "change",
            "tone": charts.TONES.get(verdict, "open"),
            "short": f"{formats.MARKS[verdict]} {version}",
            "by": size,
            "label": f"{verdict.value} {size} ({formats.ends(effect.ratio)}) over "
            f"{result.base.version}, Python {effect.python}",
            "href": root + addresses.release(axis.package, version),
        }


def _title(metric: str) -> str:
    return METRICS[metric].title if metric in METRICS else "time of a call"


def endpoint(case: str, python: str) -> str:
    """Return the id of a case without its interpreter: `asgi-wsgi/json/w1/c128`."""
    return "/".join(part for part in case.split("/") if part != f"py{python}")


def over_first(root: str, axis: ReleaseAxis, case: str, metric: str) -> Iterator[PlotPoint]:
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
        href = root + addresses.release(axis.package, release.version)
        yield PlotPoint(float(place), value, href, cut)
        cut = False


def _release(site: Site, package: ReleasedPackage, version: str) -> PageFile:
    name, address = package.name, addresses.release(package.name, version)
    root = addresses.root(addresses.file(address))
    sections = [
        (axis, release, result, _forest(site, root, number, result) if result else None)
        for number, axis in enumerate(package.axes)
        for release in axis.releases
        if release.version == version
        for result in (_results(axis).get(version),)
    ]
    before = [
        result.base.version if result else release.previous for _, release, result, _ in sections
    ] + [
        cause.previous
        for record in package.changes
        for cause in record.releases
        if (cause.package, cause.version) == (name, version)
    ]
    cards = (_card(axis, result) for axis, _, result, _ in sections if result)
    return render(
        site,
        "release.html.j2",
        address,
        f"{name} {version}",
        _summary(name, version, sections),
        card=next(filter(None, cards), None),
        package=package,
        version=version,
        when=next((release.when for _, release, _, _ in sections), None),
        links=_links(package, version, next(filter(None, before), None)),
        sections=sections,
        changes=_changes(package, version),
        why=_why(site, name, version),
        differences=_differences,
        command=partial(_command, name),
    )


def _card(axis: ReleaseAxis, result: Result) -> Card | None:
    """Make a card of a release's largest effect; return None if nothing moved."""
    if not result.moved:
        return None
    effect, version = result.moved[0], result.head.version
    name, places = case_names.name(effect.case), [release.version for release in axis.releases]
    points = over_first("", axis, effect.case, effect.metric)
    by_place = {int(point.x): point.value.figure for point in points}
    figures = (by_place.get(place) for place in range(len(places)))
    return Card(
        page=addresses.release(axis.package, version),
        when=day(result.head.when),
        what=name.what,
        variant=name.variant if name.known else "",
        figure=formats.change(effect.ratio),
        verdict=formats.direction(effect.metric, effect.ratio),
        tone=charts.TONES[effect.verdict or Verdict.INCONCLUSIVE],
        sure=f"95 % interval {formats.ends(effect.ratio)} on {axis.machine.cpu}",
        release=f"{axis.package} {result.base.version} → {version}",
        values=[figure.estimate if figure else None for figure in figures],
        step=places.index(version),
    )


def _summary(
    name: str,
    version: str,
    sections: Sequence[tuple[ReleaseAxis, MeasuredRelease, Result | None, Markup | None]],
) -> str:
    """Describe a release's largest effect on the machine measured last, in a sentence."""
    effects = (effect for _, _, result, _ in sections if result for effect in result.moved)
    if (first := next(effects, None)) is None:
        return f"The effect of {name} {version} on requests, case by case."
    what = case_names.name(first.case).what
    return f"With {name} {version}, {what} {formats.effect(first.metric, first.ratio)}."


def _forest(site: Site, root: str, number: int, result: Result) -> Markup:
    """Draw the effects of a release: what moved, largest first, and what did not."""
    main = sorted(result.main, key=lambda effect: (-effect.size, effect.case))
    undecided = [effect for effect in main if effect.verdict is Verdict.INCONCLUSIVE]
    visible = sorted(effect.detectable or 0.0 for effect in undecided)
    sizes = " to ".join(dict.fromkeys(map(formats.size, (*visible[:1], *visible[-1:]))))
    groups = {
        "Moved": [effect for effect in main if effect.moved],
        f"Not decided; detectable: {sizes}": undecided,
        "No change": [effect for effect in main if effect.verdict is Verdict.NO_CHANGE],
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
    return charts.forest(about, CHANGE, dots, repeats=samples)


def _dot(site: Site, root: str, effect: ReleaseEffect) -> Dot:
    verdict = effect.verdict or Verdict.INCONCLUSIVE
    metric = effect.metric if effect.metric in METRICS else ""
    return Dot(
        figure(effect.case, effect.metric),
        Value(effect.ratio, note=_seen(effect)),
        href=root + addresses.case(effect.case) if effect.case in site.planned else "",
        verdict=verdict,
        word=formats.verdict(metric, verdict),
    )


def _seen(effect: ReleaseEffect) -> str:
    if effect.levels is None:
        return f"could see {formats.size(effect.detectable)}"
    return "levels of {} and {} {}".format(*effect.levels, effect.samples)


def _command(name: str, result: Result) -> str:
    """Make the command that compares both releases, on the case that moved most if any did."""
    effect = next((effect for effect in result.moved if effect.metric in {CPU, START}), None)
    sides = ("--base-with", f"{name}=={result.base.version}", "--with")
    select = ("--select", glob.escape(effect.case)) if effect else ()
    start = ("--start", "--profile", "nightly") if effect and effect.metric == START else ()
    words = ("duetbench", "compare", *sides, f"{name}=={result.head.version}", *start, *select)
    return shlex.join(words)


def _differences(result: Result) -> list[tuple[PackageChange, list[str]]]:
    """Return what differs between the locks of two releases, and in which stacks."""
    moves: dict[tuple[str, str | None, str | None], tuple[PackageChange, list[str]]] = {}
    for stack in sorted(result.base.stacks.keys() & result.head.stacks.keys()):
        before, after = (dict(release.stacks[stack]) for release in (result.base, result.head))
        for move in differences(stack, before, after):
            moves.setdefault((move.package, move.base, move.head), (move, []))[1].append(stack)
    return list(moves.values())
