"""Addresses of the site: published once, so that what is asserted here is never changed."""

import re

from observatory.show import addresses

HOSTILE = (
    "../../etc/passwd", "/etc/passwd", "a//b", "a/./b", "a/../b", ".hidden/x", "a/index.html",
    "a/b/", "", "<img src=x onerror=alert(1)>", "a?b=c#d", "a\\b", "a%2e%2e", "a\x00b", "a\nb",
    "x" * 10_000, "a" * 101, "con/aux", "trailing. /x", "\ud800", "a/data.json",
)  # fmt: skip
INSIDE = "inprocess/gil.Cpu.time_tasks(mode=threads, tasks=4)/py3.14/current"
RUN = "20261120T123436Z-nightly-c5891dce"


def test_addresses_never_change() -> None:
    at = addresses
    kinds = (at.FRONT, at.SIDES, at.ASV, at.CHANGES, at.RUNS, at.PACKAGES, at.EXPERIMENTS, at.CASES)
    assert kinds == ("", "sides/", "asv/", "c/", "runs/", "p/", "x/", "b/")
    assert (at.COMPARISONS, at.POINTS) == ("cmp/", "points/")
    for address, expected in (
        (at.experiment("asgi-wsgi"), "x/asgi-wsgi/"),
        (at.case("asgi-wsgi/json/py3.14t/w2/c256"), "b/asgi-wsgi/json/py3.14t/w2/c256/"),
        (at.case(INSIDE), f"b/{INSIDE.replace(' ', '%20')}/"),
        (at.change("20261120-granian-0"), "c/20261120-granian-0/"),
        (at.comparison(f"{RUN}-compare-a"), f"cmp/{RUN}-compare-a/"),
        (at.package("pydantic-core"), "p/pydantic-core/"),
        (at.release("pydantic-core", "2.41.1"), "p/pydantic-core/2.41.1/"),
        (at.case("<script>"), "b/~5b63e5b2097fc690/"),
        (at.raw(at.RUNS, RUN), f"runs/{RUN}.json"),
    ):
        assert address == expected


def test_a_name_that_can_be_no_folder_has_its_digest_as_address() -> None:
    actual = {addresses.case(name) for name in HOSTILE}
    assert len(actual) == len(HOSTILE)
    assert [address for address in actual if not re.fullmatch(r"b/~[0-9a-f]{16}/", address)] == []


def test_an_address_has_its_file_and_its_way_back() -> None:
    for address, file, root in (
        ("", "index.html", "./"),
        ("b/a/b%20c/?metric=x#y", "b/a/b c/index.html", "../../../"),
        ("runs/r.json", "runs/r.json", "../"),
    ):
        assert (addresses.file(address), addresses.root(address)) == (file, root)
