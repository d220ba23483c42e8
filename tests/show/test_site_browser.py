"""The site in Chromium: years of nights on one machine, and one run on another.

The histories are made up, their change points planted; the pages are those that anybody would see.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Route, expect

import browsing
import made_up
import site_builds
from browsing import NewPage, Watched
from duetbench.show.change import describe
from duetbench.show.site.pages import addresses
from duetbench.store.change import Change
from duetbench.trend import table as history
from duetbench.trend.table import Table

pytestmark = pytest.mark.real

CASE: Final = "asgi-wsgi/endpoint0/py3.14/w1/c128"
CPU: Final = "server_cpu_per_request"


@dataclass(frozen=True)
class Seen:
    """A site, where it is served, and what it was made from."""

    folder: Path
    base: str
    table: Table
    change: Change

    @property
    def around(self) -> tuple[str, str]:
        assert self.change.before_run
        assert self.change.after_run
        return self.change.before_run, self.change.after_run


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    folder, imagined = site_builds.history(tmp_path_factory.mktemp("past"))
    (table,) = history.tables(made_up.generate(imagined))
    (change,) = (record for record in made_up.records(imagined) if record.status == "open")
    with browsing.served(folder) as base:
        yield Seen(folder, base, table, change)


@pytest.fixture
def watched(new_page: NewPage, past: Seen) -> Iterator[Watched]:
    """A page on which nothing goes wrong, but for what a test expects and clears."""
    found = Watched(new_page(), past.base)
    yield found
    assert found.troubles == []


def kinds(past: Seen) -> dict[str, str]:
    newest = past.table.nights[-1].run
    with_file = next((past.folder / "runs").glob("*.json")).stem
    return {
        "front": addresses.FRONT,
        "experiments": addresses.EXPERIMENTS,
        "experiment": addresses.experiment("asgi-wsgi"),
        "case": addresses.case(CASE),
        "compare": addresses.COMPARE,
        "changes": addresses.CHANGES,
        "change": addresses.change(past.change.id),
        "packages": addresses.PACKAGES,
        "package": addresses.package("fastapi"),
        "release": addresses.release("fastapi", "0.11.0"),
        "comparisons": addresses.COMPARISONS,
        "comparison": addresses.comparison("20261119T120000Z-compare-bbbbbbbb"),
        "why": addresses.attribution("20261120-granian-0"),
        "whys": addresses.WHY,
        "endpoints": addresses.prefix("asgi-wsgi"),
        "endpoint": addresses.prefix("asgi-wsgi/asgi-json"),
        "runs": addresses.RUNS,
        "night": addresses.run(newest),
        "run": addresses.run(with_file),
        "machines": addresses.MACHINES,
        "machine": addresses.machine(past.table.machine),
        "data": addresses.DATA,
        "method": addresses.METHOD,
        "glossary": addresses.GLOSSARY,
        "find": addresses.FIND,
        "missing": addresses.NOT_FOUND,
    }


PAPER: Final = 718
"""Px between the margins of a sheet: A4 less a centimetre on either side."""
CUT: Final = """() => {
  const told = (one, what) => `${what}: ${one.outerHTML.slice(0, 160)}`;
  const found = [];
  for (const one of [document.documentElement, ...document.querySelectorAll('body *')]) {
    if (one.closest('svg') || !one.clientWidth) continue;
    if (one.scrollWidth > one.clientWidth + 1) found.push(describe(one, 'wider than its place'));
    if (getComputedStyle(one).overflowY !== 'visible' && one.scrollHeight > one.clientHeight + 1) {
      found.push(describe(one, 'higher than its place'));
    }
  }
  for (const one of document.querySelectorAll('main details > summary')) {
    const says = getComputedStyle(one, '::after').content.includes('closed');
    if (says === one.parentElement.open) found.push(describe(one, 'open or closed'));
  }
  const paper = getComputedStyle(document.body).backgroundColor;
  if (paper !== 'rgb(255, 255, 255)') found.push(`printed on ${paper}`);
  return found.slice(0, 5);
}"""


def unreadable(page: Page, kind: str) -> Iterator[str]:
    """What hinders somebody: in light on a screen, in dark on a phone, and on paper."""
    themes: tuple[tuple[Literal["light", "dark"], int], ...] = (("light", 1280), ("dark", 390))
    page.evaluate(Axe().axe_script)
    for scheme, width in themes:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 844})
        browsing.kept(page, f"{kind}-{scheme}")
        for one in page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]:
            yield f"{scheme}: {one['id']}: {one['nodes'][0]['html'][:200]}"
        for room in (width, 640):  # which is 1280 px at 200 % zoom
            page.set_viewport_size({"width": room, "height": 844})
            wide = page.evaluate("document.documentElement.scrollWidth")
            if wide > room:
                yield f"{scheme}: {wide} px wide where there are {room}"
    page.set_viewport_size({"width": PAPER, "height": 1046})
    page.emulate_media(media="print")
    browsing.kept(page, f"{kind}-print")
    yield from page.evaluate(CUT)
    page.emulate_media(media="screen")


def test_every_kind_of_page_can_be_read_by_everybody(new_page: NewPage, past: Seen) -> None:
    """One page after another is loaded once, and looked at in every theme and on paper."""
    watched = Watched(new_page(reduced_motion="reduce"), past.base)
    found = {}
    for kind, address in kinds(past).items():
        watched.page.set_viewport_size({"width": 1280, "height": 844})
        watched.page.emulate_media(color_scheme="light")
        if problems := [*unreadable(watched.open(address), kind), *watched.troubles]:
            found[kind] = problems
        watched.troubles.clear()
    assert found == {}


def test_a_page_is_found_by_the_words_of_its_name_or_id(watched: Watched) -> None:
    page = watched.open(f"{addresses.FIND}?q=FastAPI+asgi-json")
    shown = page.locator(".find-list li:visible")
    texts = [text.lower() for text in shown.all_inner_texts()]
    assert texts
    assert all("fastapi" in text and "asgi-json" in text for text in texts)
    assert page.locator("#find-says").inner_text() == f"{shown.count()} found"
    page.fill("#find-words", "no such thing")
    assert (shown.count(), page.locator(".find-list:visible").count()) == (0, 0)
    page.fill("#find-words", "")
    assert page.locator(".find-list li[hidden]").count() == 0


def test_from_a_change_to_its_trend_to_its_run_and_back(watched: Watched, past: Seen) -> None:
    page = watched.open("")
    record, (_, after) = past.change, past.around
    page.locator(f'main a[href$="{addresses.change(record.id)}"]').first.click()
    expect(page.locator("h1")).to_contain_text(describe(record).sentence)
    expect(page.locator("#evidence svg").first).to_be_visible()
    case = addresses.case(record.series.case)
    page.locator(f'main p a[href*="{case}?metric={CPU}"]').first.click()
    expect(page.locator("h1")).to_have_text(record.series.case)
    page.locator(f'main a[href$="{addresses.change(record.id)}"]').first.click()
    page.locator(f'.facts a[href$="{addresses.run(after)}"]').click()
    expect(page.locator("h1")).to_contain_text(after)
    page.locator(f'main a[href*="{case}"]').first.click()
    expect(page.locator("h1")).to_have_text(record.series.case)
    for _ in range(5):
        page.go_back()
    expect(page).to_have_url(past.base)


def rows(page: Page) -> list[list[str]]:
    page.wait_for_selector("#compare-result:not(.waiting)")
    return [
        [text.partition("\n")[0] for text in row.locator("th, td").all_inner_texts()]
        for row in page.locator("#compare-rows tr").all()
    ]


def test_a_comparison_is_sorted_by_how_far_it_is_beyond_the_noise(
    watched: Watched, past: Seen
) -> None:
    a, b = past.around
    page = watched.open(f"{addresses.compare(a, b)}&show=all")
    found = rows(page)
    assert len(found) == len(past.table.cases) == 8
    groups = [row.get_attribute("data-group") for row in page.locator("#compare-rows tr").all()]
    ranked = [
        row for row, group in zip(found, groups, strict=True) if group in {"beyond", "within"}
    ]
    factors = [float(row[4].rstrip("×")) for row in ranked]
    assert factors == sorted(factors, reverse=True)
    page.get_by_role("link", name="Show only what differs").click()
    moved = rows(page)
    assert [row[0] for row in moved] == [
        row[0] for row, group in zip(found, groups, strict=True) if group == "beyond"
    ]
    assert past.change.series.case in {row[0] for row in moved}
    hidden = page.locator("#compare-hidden").inner_text()
    assert sum(map(int, re.findall(r"(\d+) w", hidden))) == 8 - len(moved)


def test_an_address_restores_a_comparison(watched: Watched, past: Seen) -> None:
    a, b = past.around
    query = f"{addresses.compare(a, b)}&metric=throughput&q=py3.14t&show=all"
    page = watched.open(f"{query}&zebra=1&show=stripes")
    expect(page.locator("#compare-says")).to_contain_text("does not know “zebra=1”")
    expect(page).to_have_url(past.base + query)
    values = {"a": a, "b": b, "metric": "throughput", "q": "py3.14t", "show": "all"}
    for name, value in values.items():
        expect(page.locator(f"[name={name}]")).to_have_value(value)
    found = rows(page)
    assert len(found) == 4
    assert all("py3.14t" in row[0] for row in found)
    expect(page.locator("#compare-hidden")).to_contain_text("4 that the filter leaves out")
    page.locator("[name=q]").fill("gil-endpoints")
    page.locator("[name=metric]").select_option(CPU)
    expect(page.locator("#compare-rows tr")).to_have_count(2)
    expect(page).to_have_url(f"{past.base}{addresses.compare(a, b)}&q=gil-endpoints&show=all")
    page.reload()
    expect(page.locator("#compare-rows tr")).to_have_count(2)


def test_interpreters_and_stacks_are_compared_too(watched: Watched, past: Seen) -> None:
    page = watched.open(f"{addresses.compare('py:3.14', 'py:3.14t')}&show=all")
    assert len(rows(page)) == 4
    expect(page.locator("#compare-command")).to_have_text("duetbench compare --python 3.14 3.14t")
    days = [f"stack:current@{year}-11-01" for year in (2025, 2026)]
    page = watched.open(f"{addresses.compare(*days)}&show=all")
    assert len(rows(page)) == 8
    expect(page.locator("#compare-sides")).to_contain_text("nights up to")
    page = watched.open(addresses.compare("py:3.14", days[0]))
    expect(page.locator("#compare-says")).to_contain_text("no mixture")
    expect(page.locator("#compare-result")).to_be_hidden()
    other = next((past.folder / "runs").glob("*.json")).stem
    page = watched.open(addresses.compare(other, past.around[1]))
    expect(page.locator("#compare-says")).to_contain_text("different machines")


def test_a_trend_s_view_is_in_its_address(watched: Watched, past: Seen) -> None:
    case = addresses.case(CASE)
    page = watched.open(f"{case}?metric=throughput&from=2025-01-01&zebra=1&to=never")
    note = page.locator(".trend-note")
    expect(note).to_contain_text("“zebra=1”")
    expect(note).to_contain_text("“to=never”")
    expect(page).to_have_url(f"{past.base}{case}?metric=throughput&from=2025-01-01")
    expect(page.locator("[name=metric]")).to_have_value("throughput")
    expect(page.locator("[name=from]")).to_have_value("2025-01-01")
    expect(page.locator("#trend canvas")).to_be_visible()
    page.locator("[name=metric]").select_option(CPU)
    page.locator("[name=reset]").click()
    expect(page).to_have_url(past.base + case)


PERIOD: Final = timedelta(days=90)


@pytest.fixture
def plotted(watched: Watched) -> Page:
    """The page of a case whose trend has been plotted."""
    watched.page.set_viewport_size({"width": 1000, "height": 844})
    watched.open(addresses.case(CASE))
    expect(watched.page.locator("#trend canvas")).to_be_visible()
    return watched.page


def test_dragging_zooms_and_a_double_click_goes_back(watched: Watched, plotted: Page) -> None:
    """The middle half of a year: about 90 days after its beginning, about 90 before its end."""
    page = plotted
    box = page.locator("#trend .u-over").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 4, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 3 / 4, middle, steps=5)
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"\?from=\d{4}-\d\d-\d\d&to=\d{4}-\d\d-\d\d$"))
    begin, end = (
        datetime.fromisoformat(date).replace(tzinfo=UTC)
        for date in re.findall(r"(?:from|to)=(\d{4}-\d\d-\d\d)", page.url)
    )
    newest = made_up.LAST
    for found, wanted in ((newest - end, PERIOD), (end - begin, 2 * PERIOD)):
        assert abs(found - wanted) < timedelta(days=8)
    expect(page.locator("[name=from]")).to_have_value(f"{begin:%Y-%m-%d}")
    page.reload(wait_until="networkidle")
    assert re.findall(r"(?:from|to)=(\d{4}-\d\d-\d\d)", page.url) == [
        f"{begin:%Y-%m-%d}",
        f"{end:%Y-%m-%d}",
    ]
    page.locator("#trend .u-over").dblclick()
    expect(page).to_have_url(watched.base + addresses.case(CASE))


def test_the_pointer_says_what_is_under_it(plotted: Page) -> None:
    page = plotted
    page.locator("#trend .u-over").hover()
    tip = page.locator(".trend-tip")
    expect(tip).to_contain_text(re.compile(r"20\d\d-\d\d-\d\d: .*( [mµ]s|no figure)"))
    page.locator("#trend .u-over").click()
    said = page.locator("#trend > [role=status]")
    expect(said).to_contain_text(tip.inner_text())
    said.locator("a").click()
    expect(page).to_have_url(re.compile(r"/runs/[^/]+/$"))


def test_another_figure_has_its_own_title_axis_and_table(watched: Watched, plotted: Page) -> None:
    page = plotted
    page.locator("#trend summary").click()
    first = page.locator("#trend tbody tr").first
    expect(first).to_contain_text(re.compile(" [mµ]s"))
    page.locator("[name=metric]").select_option("throughput")
    expect(page.locator("#trend figcaption strong")).to_have_text("throughput")
    expect(first).to_contain_text("/s")
    expect(first.locator("th")).to_have_text(f"{made_up.LAST:%Y-%m-%d}")
    assert page.locator("#trend tbody tr").count() == 150
    link = first.locator("a").get_attribute("href")
    assert link is not None
    assert link.startswith(f"{watched.base}runs/{made_up.LAST:%Y%m%dT%H%M%S}Z-")


def test_only_the_years_that_are_shown_are_fetched(watched: Watched, plotted: Page) -> None:
    """A year back needs this year's file and the last one's; 90 days need this year's alone."""
    page = plotted

    def years() -> set[str]:
        return {
            address.rsplit("/", 1)[1][:4] for address in watched.fetched if "/series/" in address
        }

    assert years() == {"2025", "2026"}
    page.locator("[name=span]").select_option("90d")
    expect(page).to_have_url(re.compile(r"\?span=90d$"))
    watched.fetched.clear()
    page.goto(f"{watched.base}{addresses.case(CASE)}?span=90d", wait_until="networkidle")
    expect(page.locator("#trend canvas")).to_be_visible()
    assert years() <= {"2026"}


def test_the_plot_is_as_high_as_the_picture_was(watched: Watched) -> None:
    page = watched.page
    page.route("**/manifest.json", lambda route: route.abort())
    page.goto(watched.base + addresses.case(CASE), wait_until="networkidle")
    expect(page.locator(".trend-note")).to_contain_text("manifest.json cannot be reached")
    height = page.locator("#trend .chart-plot").evaluate("plot => plot.clientHeight")
    watched.troubles.clear()  # that the manifest was not there
    page.unroute("**/manifest.json")
    page.locator("[name=span]").select_option("90d")
    expect(page.locator("#trend canvas")).to_be_visible()
    expect(page.locator("#trend .chart-plot")).to_be_hidden()
    assert page.locator(".trend-live").evaluate("plot => plot.clientHeight") == height
    expect(page.locator(".trend-note")).to_be_empty()


@pytest.mark.parametrize("kind", ["drawn", "plotted"])
def test_charts_are_read_with_the_keyboard(watched: Watched, past: Seen, kind: str) -> None:
    record = past.change
    chart, address = {
        "drawn": ("#around", addresses.change(record.id)),
        "plotted": ("#trend", f"{addresses.case(record.series.case)}?metric={CPU}"),
    }[kind]
    page = watched.open(address)
    expect(page.locator(f"{chart} :is(canvas, svg)").first).to_be_visible()
    page.locator(chart).focus()
    said = page.locator(f"{chart} [role=status]")
    page.keyboard.press("End")
    expect(said).to_contain_text(re.compile(r"20\d\d"))
    last = said.inner_text()
    page.keyboard.press("ArrowLeft")
    expect(said).not_to_have_text(last)
    page.keyboard.press("ArrowRight")
    expect(said).to_have_text(last)
    page.keyboard.press("ArrowDown")
    expect(said).to_contain_text(re.compile("slower|faster", re.IGNORECASE))
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(re.escape(past.base) + r"runs/[^/]+/$"))


def test_everything_can_be_read_without_javascript(new_page: NewPage, past: Seen) -> None:
    page = new_page(java_script_enabled=False)
    watched = Watched(page, past.base)
    for kind, address in kinds(past).items():
        page.goto(watched.base + address)
        assert page.locator("h1").inner_text(), kind
        assert len(page.locator("main").inner_text()) > 120, kind
        if kind in {"experiment", "case", "change", "comparison", "endpoint"}:
            assert page.locator("main svg.chart-drawing.wide").first.is_visible(), kind
        if kind == "compare":
            assert "does not run" in page.locator("main").inner_text()
            assert not page.locator("#compare-form").is_visible()
    assert watched.troubles == []


FORCED: Final = """() => {
  const style = (one, ...names) => names.map(name => getComputedStyle(one)[name]).join(' ');
  const series = {};
  for (const chart of document.querySelectorAll('main .chart')) {
    for (const mark of chart.querySelectorAll('.wide [class*="s-"]')) {
      const dot = mark.querySelector('.dot:not(.hollow)');
      const line = mark.matches('path.line') ? mark : null;
      const name = [...mark.classList].filter(one => /^[sd]-/.test(one)).join(' ');
      if (!dot && !line) continue;
      const looks = (series[chart.id] ??= {})[name] ??= new Set();
      looks.add(dot ? dot.getAttribute('class') : style(line, 'strokeDasharray'));
    }
  }
  const looks = Object.fromEntries(Object.entries(series).map(([chart, many]) =>
    [chart, Object.values(many).map(seen => [...seen].join())]));
  const texts = [...document.querySelectorAll('main .chart-drawing text')];
  const under = one => getComputedStyle(one).borderBottomColor;
  const [others, current] = [':not([aria-current])', '[aria-current]'].map(
    which => [...document.querySelectorAll(`.site-head nav a${which}`)].map(under));
  return {
    forced: matchMedia('(forced-colors: active)').matches,
    looks,
    smeared: texts.filter(one => style(one, 'fill') === style(one, 'stroke')).length,
    texts: texts.length,
    current: current.length && !others.includes(current[0]),
  };
}"""


def test_series_differ_in_a_system_s_own_few_colours(watched: Watched, past: Seen) -> None:
    watched.page.emulate_media(forced_colors="active")
    page = watched.open(kinds(past)["experiment"])
    browsing.kept(page, "experiment-forced")
    found = page.evaluate(FORCED)
    assert found["forced"]
    assert found["texts"] > 20
    assert found["smeared"] == 0
    assert found["current"]
    assert max(map(len, found["looks"].values())) > 1
    for chart, looks in found["looks"].items():
        assert len(set(looks)) == len(looks), (chart, looks)


def damage(page: Page, pattern: str, how: str) -> None:
    def answer(route: Route) -> None:
        if how == "missing":
            route.fulfill(status=404)
            return
        body = route.fetch().body()
        other = (
            body[: len(body) // 2] if how == "cut" else body.replace(b'"nights":', b'"knights":')
        )
        route.fulfill(status=200, content_type="application/json", body=other)

    page.route(pattern, answer)


@pytest.mark.parametrize(
    ("patterns", "how", "told"),
    [
        (("**/series/**", "**/across/**"), "missing", "missing"),
        (("**/series/**", "**/across/**"), "cut", "damaged"),
        (("**/series/**", "**/across/**"), "changed", "damaged"),
        (("**/manifest.json",), "missing", "manifest.json is missing"),
    ],
)
def test_files_that_are_missing_or_damaged_are_told(
    watched: Watched, past: Seen, patterns: tuple[str, ...], how: str, told: str
) -> None:
    page = watched.page
    for pattern in patterns:
        damage(page, pattern, how)
    watched.open(addresses.case(CASE))
    expect(page.locator(".trend-note")).to_contain_text(told)
    expect(page.locator("#trend svg.chart-drawing.wide")).to_be_visible()
    watched.open(addresses.compare(*past.around))
    expect(page.locator("#compare-says")).to_contain_text(told)
    expect(page.locator("#compare-form")).to_be_visible()
    watched.troubles.clear()


def test_pages_weigh_little(new_page: NewPage, past: Seen) -> None:
    """Compressed: the first page 150 kB, a case with its data 250 kB, a page's scripts 46 kB."""
    weights, scripts = {}, {}
    for kind in ("front", "experiment", "case", "compare"):
        watched = Watched(new_page(), past.base)
        watched.open(kinds(past)[kind])
        files = browsing.compressed(past.folder, past.base, watched.fetched)
        weights[kind] = sum(files.values())
        scripts[kind] = sum(size for name, size in files.items() if name.endswith(".js"))
    assert weights["front"] <= 150_000
    assert weights["case"] <= 250_000
    assert weights["compare"] <= 250_000
    assert max(scripts.values()) <= 46_000, scripts
    assert scripts["compare"] <= 25_000, scripts
