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
from observatory.show.site.pages.site import Context, Page, Site, group
from observatory.store.change import Change, order
from observatory.trend.quotes import Quote
from observatory.trend.releases import START, ReleaseAxis, Result
from observatory.trend.table import points, tables

_FIRST: Final = "Each release alone, with the 95 % interval of its ratio to the fixed stack."


def pages(site: Site) -> Iterator[Page]:
    """List all releases, a page for each package, and one for each release that did something."""
    yield site.page(addresses.PACKAGES, "Releases", "packages", partial(_list, site))
    for change in site.changes:  # issues link these
        address, make = addresses.change(change.id), partial(_moved, site, change)
        yield site.page(address, change.id, "moved", make)
    for name in site.packages:
        yield site.page(addresses.package(name), name, "package", partial(_package, site, name))
    for quote in site.quotes.values():
        address, title = addresses.release(*quote.key), " ".join(quote.key)
        yield site.page(address, title, "release", partial(_release, site, quote))


def _list(site: Site) -> Context:
    measured = (release.when for axis in site.effects for release in axis.measured)
    return {
        "rows": story.rows(site, sorted(site.quotes.values(), key=lambda quote: -quote.size)),
        "unknown": [record for record in site.changes if not site.quote(record)],
        "judged": Counter(package for package, _ in site.judged),
        "since": min(measured, default=None),
    }


def _moved(site: Site, change: Change) -> Context:
    title = quoting.finding_of(change, site.quotes)
    return {"title": title, "description": f"{title}.", "to": site.story(change)}


def _package(site: Site, name: str) -> Context:
    own = (quote for quote in site.quotes.values() if quote.package == name)
    quotes = sorted(own, key=lambda quote: (-quote.size, order(quote.version)))
    largest = quotes[0] if quotes else None
    axes = [axis for axis in site.effects if axis.package == name]
    axes.sort(key=lambda axis: not largest or axis.machine.id != largest.machine)
    return {
        "name": name,
        "rows": story.rows(site, quotes),
        "judged": sum(package == name for package, _ in site.judged),
        "locked": group((version, stack) for stack, version in sorted(_locked(site, name).items())),
        "chart": _chart(site, axes[0], largest) if axes else None,
        "sections": [(axis, site.effects[axis]) for axis in axes],
    }


def _locked(site: Site, name: str) -> dict[str, str]:
    """Return a package's version by stack, in the newest night."""
    nights = (table.nights[-1] for table in site.sources.tables)
    newest = max(nights, key=lambda night: night.time, default=None)
    stacks = newest.stacks if newest else ()
    return {stack.name: stack.packages[name] for stack in stacks if name in stack.packages}


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
    document = trends.document(site, case, {table: of}, metric, axis.package)
    about = Caption("releases", f"{quoting.title(metric)}: {case_names.name(case)}", _FIRST)
    config = {"document": document, "metric": metric, "releases": True}
    return trends.chart(about, config, case, table, of)


def _release(site: Site, quote: Quote) -> Context:
    caused = [record for record in site.changes if record.blames(*quote.key)]
    own = [record for record in caused if site.quote(record) == quote]
    alone = next((record.evidence for record in caused if len(record.releases) == 1), None)
    return {
        "title": quoting.finding(quote),
        "quote": quote,
        "figures": story.before_after(site, quote),
        "code": story.function(site, quote),
        "seen": story.request_table(site, quote, alone),
        "state": story.still_there(site, quote),
        "sure": story.measurements(site, quote, addresses.root(addresses.release(*quote.key))),
        "sections": [
            (axis, result, _command(quote.package, result), _differences(result))
            for axis, result in story.results(site, quote)
        ],
        "traces": own,
        "others": [record for record in caused if record not in own],
        "why": quoting.explanations(caused),
    }


def _command(name: str, result: Result) -> str:
    """Make the command that compares both releases, on the case that moved most if any did."""
    words = ["--base", f"{name}=={result.base.version}", "--head", f"{name}=={result.head.version}"]
    for effect in [effect for effect in result.moved if effect.metric in {CPU, START}][:1]:
        words += ["--start", "--profile", "nightly"] if effect.metric == START else []
        words += ["--select", glob.escape(effect.case)]
    return shlex.join(["observatory", "compare", *words])


def _differences(result: Result) -> list[str]:
    """Return what differs between the locks of two releases, in any stack."""
    before = {stack.name: stack.packages for stack in result.base.stacks}
    after = {stack.name: stack.packages for stack in result.head.stacks}
    moves = (differences(s, before[s], after[s]) for s in before.keys() & after.keys())
    return sorted({str(move) for of_stack in moves for move in of_stack})
