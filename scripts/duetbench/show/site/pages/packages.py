"""Packages over their releases, and what each release did: pages and badges."""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from markupsafe import Markup, escape

from duetbench.core import units
from duetbench.core.metrics import METRICS
from duetbench.core.model import Verdict
from duetbench.core.text import clean
from duetbench.project import names
from duetbench.show import addresses, formats
from duetbench.show import change as change_text
from duetbench.show.attribution import FIRST
from duetbench.show.change import ChangeText
from duetbench.show.formats import ends, percent
from duetbench.show.site import words
from duetbench.show.site.charts import forest
from duetbench.show.site.charts.figure import Caption, Quantity, Value
from duetbench.show.site.charts.forest import CHANGE, Dot, DotGroup, Forest
from duetbench.show.site.charts.plot import Plot, PlotPoint, PlotSeries, plot
from duetbench.show.site.pages.site import PageFile, ReleasedPackage, Site, grouped, render
from duetbench.store.comparison import PackageChange
from duetbench.store.points import INSTRUCTIONS, CasePoints
from duetbench.trend import releases
from duetbench.trend.events import differences
from duetbench.trend.releases import MAIN, Measured, ReleaseAxis, ReleaseEffect, Result
from duetbench.trend.steps import CPU

MOST_NAMED: Final = 3
"""Cases that a badge names to those who ask."""

LINKS: Final = {
    "home": "Home page",
    "source": "Source",
    "changelog": "Changelog",
    "documentation": "Documentation",
    "issues": "Issues",
}

TONES: Final = {"worse": "#9a3d00", "better": "#005a8f", "same": "#4a5159", "open": "#635400"}
"""Colours of results: white text has five times their contrast, and more."""

_NAME: Final = "#1c1f23"
_PAD: Final = 7.0  # px at either side of a text
_HEIGHT: Final = 20
_FONT: Final = 12.0  # px
_WIDTHS: Final = {
    **dict.fromkeys("iIjl.,:;|!'`·", 0.30),
    **dict.fromkeys('frt()[]{}/\\-" ', 0.38),
    **dict.fromkeys("mwMW@%…—▲▼◆", 0.98),
    **dict.fromkeys("ABCDEFGHJKLNOPQRSTUVXYZ&+=<>−×~#", 0.76),
}
"""Widths in em of characters that are not near the average of common sans-serif faces."""

Row = tuple[Measured, Result | None]
"""A measured release, and what it did over the one before it; the first one has none."""
Results = Mapping[ReleaseAxis, Mapping[str, Result]]
"""What the releases of a package did, by version."""


def pages(site: Site) -> Iterator[PageFile]:
    """The list, a page for each package, and for each of its releases a page and a badge."""
    every = site.packages.values()
    results: dict[str, Results] = {
        package.name: {axis: axis.results() for axis in package.axes} for package in every
    }
    yield render(
        site,
        "packages.html.j2",
        addresses.PACKAGES,
        "Packages",
        "What each release of the Python web stack's packages did to requests.",
        measured=[
            (package, *_newest(package.axes[0], results[package.name]))
            for package in every
            if package.axes
        ],
        others=[package for package in every if not package.axes],
    )
    for package in every:
        yield _package(site, package, results[package.name])
        for version in package.versions:
            yield from _release(site, package, version, results[package.name])


def _rows(axis: ReleaseAxis, results: Results) -> list[Row]:
    """The newest release first."""
    return [(release, results[axis].get(release.version)) for release in axis.releases[::-1]]


def _newest(axis: ReleaseAxis, results: Results) -> Row:
    rows = _rows(axis, results)
    return next((row for row in rows if row[0].points), rows[0])


def _package(site: Site, package: ReleasedPackage, results: Results) -> PageFile:
    address = addresses.package(package.name)
    root = addresses.root(addresses.file(address))
    return render(
        site,
        "package.html.j2",
        address,
        package.name,
        f"What each measured release of {package.name} did to requests.",
        package=package,
        locked=grouped((version, stack) for stack, version in package.locked.items()),
        links=_links(package),
        sections=[
            (
                axis,
                _rows(axis, results),
                *_overview(site, root, number, axis, results[axis].values()),
            )
            for number, axis in enumerate(package.axes)
        ],
        changes=_changes(package),
        comparisons=[
            (comparison, next(move for move in comparison.packages if move.package == package.name))
            for comparison in package.comparisons
        ],
    )


def _links(
    package: ReleasedPackage, version: str = "", before: str | None = None
) -> list[tuple[str, str]]:
    """Labels and addresses that the package's own metadata give."""
    metadata = package.links(version)
    links = [
        (label, metadata.links[kind]) for kind, label in LINKS.items() if kind in metadata.links
    ]
    compared = metadata.differences(before, version) if before else None
    return [*links, *([(f"Source, {before} to {version}", compared)] if compared else [])]


def _changes(
    package: ReleasedPackage, version: str = ""
) -> list[tuple[ChangeText, PackageChange | None, str]]:
    """Changes that may be the package's, how it moved there, and whether it was found to be it."""
    changes = []
    for record in package.changes:
        if version and not record.blames(package.name, version):
            continue
        moves = [move for move in record.packages if move.package == package.name]
        if record.may_be_of(package.name):
            blame = record.blame(moves[0]) if moves else "yes"
            changes.append((change_text.describe(record), next(iter(moves), None), blame))
    return changes


def _overview(
    site: Site, root: str, number: int, axis: ReleaseAxis, results: Iterable[Result]
) -> tuple[list[Markup], Markup | None]:
    """A small chart for every endpoint that a release moved, and a list of what did not move."""
    if len(axis.measured) < 2:
        return [], None
    first, *_, last = axis.measured
    total = Result(first, last, releases.over(first, last))
    moved = {effect.case for result in (*results, total) for effect in result.moved}
    cases = {case.case: case for release in axis.releases for case in release.points.values()}
    endpoints = grouped((endpoint(case.case, case.python), case) for case in cases.values())
    moving = {
        name: of_endpoint
        for name, of_endpoint in sorted(endpoints.items())
        if moved & {case.case for case in of_endpoint}
    }
    charts = [
        _multiple(
            site,
            root,
            Caption(f"endpoint-{number}-{place}", called(of_endpoint[0])),
            axis,
            of_endpoint,
        )
        for place, of_endpoint in enumerate(moving.values())
    ]
    drawn = {case.case for of_endpoint in moving.values() for case in of_endpoint}
    still = [effect for effect in total.main if effect.case not in drawn]
    about = Caption(
        f"still-{number}", "Where no change was seen", f"{last.version} over {first.version}."
    )
    return charts, _forest(site, root, about, still) if still else None


def endpoint(case: str, python: str) -> str:
    """What a case is called without its interpreter: `asgi-wsgi/json/w1/c128`."""
    return "/".join(part for part in case.split("/") if part != f"py{python}")


def called(case: CasePoints) -> str:
    """The same for people, where it has a name: `FastAPI's JSON, Granian, 128 connections`."""
    name = names.name(case.case)
    parts = (name.what, name.server, name.rest)
    return ", ".join(filter(None, parts)) if name.known else endpoint(case.case, case.python)


def _multiple(
    site: Site, root: str, about: Caption, axis: ReleaseAxis, cases: Sequence[CasePoints]
) -> Markup:
    """One endpoint over all releases, a line for each interpreter, over the first release."""
    versions = [release.version for release in axis.releases]
    served = any(point.metric == CPU for case in cases for point in case.points)
    metric, title = (CPU, METRICS[CPU].title) if served else ("seconds", "time of a call")
    series = (
        PlotSeries(case.python, tuple(over_first(root, axis, case.case, metric))) for case in cases
    )
    return plot(
        Plot(
            about,
            Quantity("release", units.plain),
            Quantity(f"{title}, times the first release's", units.plain, "lower", script="×"),
            tuple(sorted(series, key=lambda line: line.name)),
            names=tuple(versions),
            zero=False,
            styles=site.styles,
        )
    )


def over_first(root: str, axis: ReleaseAxis, case: str, metric: str) -> Iterator[PlotPoint]:
    """Each release over the first one that has the case: that is 1, and others bear its error."""
    first = None
    for place, release in enumerate(axis.releases):
        point = release.point(case, metric)
        if point is None:
            value = Value(None, note=release.missing.get(case, "not measured"))
        elif first is None:
            first, value = point, Value(1.0, note="the first")
        else:
            value = Value.of(releases.ratio(first, point))
        href = root + addresses.release(axis.package, release.version)
        yield PlotPoint(float(place), value, href=href)


def _forest(site: Site, root: str, about: Caption, effects: Iterable[ReleaseEffect]) -> Markup:
    """What moved, the most first, and what did not."""
    ordered = sorted(effects, key=lambda effect: (-effect.size, effect.case))
    moved = [effect for effect in ordered if effect.moved]
    still = sorted(
        (effect for effect in ordered if not effect.moved), key=lambda effect: effect.case
    )
    visible = sorted(effect.detectable or 0.0 for effect in still)
    unmoved = f"No change seen; would have been seen: {_span(visible)}"
    groups = tuple(
        DotGroup(title, tuple(_dot(site, root, effect) for effect in some))
        for title, some in (("Moved", moved), (unmoved, still))
        if some
    )
    return forest.forest(Forest(about, CHANGE, groups, "change"))


def _span(sizes: Sequence[float]) -> str:
    """The least and the largest of sorted sizes: `1.3 % to 3.9 %`."""
    return " to ".join(dict.fromkeys(formats.size(size) for size in (*sizes[:1], *sizes[-1:])))


def _dot(site: Site, root: str, effect: ReleaseEffect) -> Dot:
    verdict = effect.verdict or Verdict.INCONCLUSIVE
    metric = effect.metric if effect.metric in METRICS else ""
    name = str(names.name(effect.case))
    # Where there is no room a chart leaves out the beginning: what tells rows apart is at the end.
    label = name if effect.metric in MAIN else f"{name} · {formats.title(effect.metric)}"
    value = Value.of(effect.ratio, note=f"could see {formats.size(effect.detectable)}")
    dot = forest.change(label, value, verdict, formats.verdict(metric, verdict))
    href = root + addresses.case(effect.case) if effect.case in site.planned else ""
    return replace(dot, href=href)


def _release(
    site: Site, package: ReleasedPackage, version: str, results: Results
) -> Iterator[PageFile]:
    name, address = package.name, addresses.release(package.name, version)
    root = addresses.root(addresses.file(address))
    sections = []
    for number, axis in enumerate(package.axes):
        for release in axis.releases:
            if release.version == version:
                result = results[axis].get(version)
                charts = list(_charts(site, root, number, result)) if result else []
                sections.append((axis, release, result, charts))
    # A badge names one release, where a section says what else may have done it.
    alone = (
        (axis, result) for axis, head, result, _ in sections if result and head.follows(result.base)
    )
    drawn = next(filter(None, (picture(*pair) for pair in alone)), "")
    previous = [
        result.base.version if result else release.previous for _, release, result, _ in sections
    ]
    causes = (release for record in package.changes for release in record.releases)
    previous += [
        cause.previous for cause in causes if (cause.package, cause.version) == (name, version)
    ]
    yield render(
        site,
        "release.html.j2",
        address,
        f"{name} {version}",
        f"What the release {version} of {name} did to requests, case by case.",
        package=package,
        version=version,
        when=next((release.when for _, release, _, _ in sections), None),
        links=_links(package, version, next(filter(None, previous), None)),
        sections=sections,
        changes=_changes(package, version),
        why=site.explanations(
            (record for record in site.changes if record.blames(name, version)),
            release=(name, version),
        ),
        most_rows=FIRST,
        badge=Markup(drawn),  # noqa: S704 - `svg` escapes
        differences=_differences,
        instructions=_instructions,
    )
    if drawn:
        yield PageFile(addresses.file(addresses.badge(name, version)), f"{drawn}\n")


def _charts(site: Site, root: str, number: int, result: Result) -> Iterator[Markup]:
    over = f"{result.head.version} over {result.base.version}."
    parts = (
        ("main", "CPU per request; inside the process, time of a call", result.main),
        (
            "others",
            "Other figures that moved",
            [effect for effect in result.others if effect.moved],
        ),
    )
    for name, title, effects in parts:
        if effects:
            yield _forest(site, root, Caption(f"{name}-{number}", title, over), effects)


def _differences(result: Result) -> list[tuple[PackageChange, list[str]]]:
    """What differs between the locks that two releases were measured with, and in which stacks."""
    moves: dict[tuple[str, str | None, str | None], tuple[PackageChange, list[str]]] = {}
    for stack in sorted(result.base.stacks.keys() & result.head.stacks.keys()):
        before, after = (dict(release.stacks[stack]) for release in (result.base, result.head))
        for move in differences(stack, before, after):
            moves.setdefault((move.package, move.base, move.head), (move, []))[1].append(stack)
    return list(moves.values())


def _instructions(result: Result) -> list[ReleaseEffect]:
    """What was counted, the most first."""
    counted = (effect for effect in result.effects if effect.metric == INSTRUCTIONS)
    return sorted(counted, key=lambda effect: effect.size, reverse=True)


def summary(result: Result) -> tuple[str, str]:
    """A result in a few words for a badge, and its tone: `+22 % CPU`, `no change`."""
    judged = [effect for effect in result.main if effect.metric == CPU]
    moved = sorted(
        (effect for effect in judged if effect.moved), key=lambda effect: effect.ratio.estimate
    )
    if not judged:
        return "", ""
    if not moved:
        if all(effect.verdict is Verdict.NO_CHANGE for effect in judged):
            return "no change", "same"
        return (
            f"no change above {formats.size(max(effect.detectable or 0 for effect in judged))}",
            "same",
        )
    least, most = moved[0].ratio.estimate, moved[-1].ratio.estimate
    if least < 1 < most:
        return f"{words.change(least)} to {words.change(most)} CPU", "open"
    size, tone = (most, "worse") if least > 1 else (least, "better")
    return f"{'up to ' if len(moved) > 1 else ''}{words.change(size)} CPU", tone


def picture(axis: ReleaseAxis, result: Result) -> str:
    """A release's badge; empty where nothing can be said."""
    text, tone = summary(result)
    if not text:
        return ""
    name = f"{axis.package} {result.head.version}"
    moved = [effect for effect in result.moved if effect.metric == CPU][:MOST_NAMED]
    label = f"{name}: {text} per request, over {result.base.version}, on {axis.machine.cpu}"
    cases = (
        f"{names.name(effect.case)} {percent(effect.ratio.estimate)} ({ends(effect.ratio)})"
        for effect in moved
    )
    return badge(name, text, tone, ": ".join(filter(None, (label, "; ".join(cases)))))


def badge(name: str, result: str, tone: str, label: str) -> str:
    """The badge as an `<svg>`; `label` is read aloud, and shown under the pointer.

    It stands alone, where no stylesheet of ours is, and inside pages that forbid styles: all of its
    looks are in attributes.
    """
    left, right = (_width(text) + 2 * _PAD for text in (name, result))
    name, result, label = (str(escape(clean(text))) for text in (name, result, label))
    width = _px(left + right)
    size = f'viewBox="0 0 {width} {_HEIGHT}" width="{width}" height="{_HEIGHT}"'
    right_half = f'x="{_px(left)}" width="{_px(right)}" height="{_HEIGHT}"'
    font = 'font-family="Verdana,DejaVu Sans,Arial,sans-serif" font-size="12" fill="#fff"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}">'
        f'<title>{label}</title><rect width="{_px(left)}" height="{_HEIGHT}" fill="{_NAME}"/>'
        f'<rect {right_half} fill="{TONES[tone]}"/>'
        f'<g {font}><text x="{_px(_PAD)}" y="14">{name}</text>'
        f'<text x="{_px(left + _PAD)}" y="14">{result}</text></g></svg>'
    )


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _width(text: str) -> float:
    """Width of a text in px; SVG has no way to ask for it before it is shown."""
    return _FONT * sum(map(_em, clean(text)))


def _em(character: str) -> float:
    if (width := _WIDTHS.get(character)) is not None:
        return width
    if character.isascii():
        return 0.63
    if unicodedata.combining(character):
        return 0.0
    return 1.0 if unicodedata.east_asian_width(character) in "WF" else 0.72
