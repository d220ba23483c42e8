"""Ranking of what changed, with calls made up so that each figure can be worked out by hand."""

from collections.abc import Mapping
from pathlib import Path

from duetbench.judge.why.attribute import name_of
from duetbench.judge.why.ranking import Calls, Fact, Name, Ranked, rank
from duetbench.measure.instructions.profiling import Code
from duetbench.store.attribution import APPLICATION, PYTHON


def function(name: str) -> Name:
    return Name(name, f"web/{name.lower().partition('.')[0]}.py", "web")


def calls(costs: Mapping[str, float], facts: Mapping[str, Fact] | None = None) -> Calls:
    """Own instructions by calls, `a b c`, in one symbol; with a dot and its name in another."""
    paths = {tuple(map(function, chain.split())): {"eval": cost} for chain, cost in costs.items()}
    return Calls(paths, {function(name): fact for name, fact in (facts or {}).items()})


def rows(ranked: Ranked) -> dict[str, tuple[str, float, float, str | None]]:
    return {
        row.function.name: (row.state, row.base, row.head, row.caller.name if row.caller else None)
        for row in ranked.rows
    }


BASE = {"": 10.0, "serve": 100.0, "serve route": 200.0, "serve route dump": 690.0}


def test_what_moved_by_less_than_the_threshold_is_not_named() -> None:
    head = {**BASE, "serve": 104.0, "serve route": 206.0}
    assert rows(rank(calls(BASE), calls(head), 0.005)) == {"route": ("both", 200, 206, "serve")}


def test_a_middleware_that_was_put_in_is_named_alone_with_what_only_it_calls() -> None:
    head = {
        "": 10.0, "serve": 100.0, "serve ware": 50.0, "serve ware look": 30.0,
        "serve ware route": 200.0, "serve ware route dump": 690.0,
    }  # fmt: skip
    ranked = rank(calls(BASE), calls(head), 0.005)
    assert rows(ranked) == {"ware": ("came", 0, 80, "serve")}
    (serve,) = ranked.tree.below
    assert {node.function.name: (node.base, node.head) for node in serve.below} == {
        "route": (890, 890),
        "ware": (0, 80),
    }
    taken_away = rank(calls(head), calls(BASE), 0.005)
    assert rows(taken_away) == {"ware": ("went", 80, 0, "serve")}


def test_a_renamed_function_is_one_function() -> None:
    def fact(line: int, code: str) -> Fact:
        return Fact(line, 2.0, code)

    base = calls(
        {"serve": 100.0, "serve dump": 600.0, "serve dump Old.walk": 40.0},
        {"dump": fact(4, "same"), "Old.walk": fact(9, "mine")},
    )
    other = Name("Old.walk", "web/elsewhere.py", "web")
    head = Calls(
        {
            (function("serve"),): {"eval": 100.0},
            (function("serve"), function("write")): {"eval": 600.0},
            (function("serve"), function("write"), other): {"eval": 80.0},
        },
        {function("write"): fact(5, "same"), other: Fact(70, 4.0, "other")},
    )
    ranked = rank(base, head, 0.005)
    (row,) = ranked.rows
    assert (row.function.file, row.function.line, row.state) == ("web/elsewhere.py", 70, "both")
    assert row.entries == (2.0, 4.0)
    assert row.caller is not None
    assert row.caller.name == "write"


def test_files_are_named_alike_on_both_sides_wherever_they_lie() -> None:
    site = Path("/env/lib/python3.14/site-packages")
    folders = (
        site, Path("/py/lib/python3.14"), Path("/copy/apps"), (Path("/own/benchmarks"),),
        {"yaml/__init__.py": "pyyaml", "core/core.cpython-314-x86_64-linux-gnu.so": "the-core"},
    )  # fmt: skip
    files = {
        f"{site}/yaml/__init__.py": ("yaml/__init__.py", "pyyaml"),
        f"{site}/six.py": ("six.py", "six"),
        f"{site}/core/core.cpython-314-x86_64-linux-gnu.so": ("core/core.so", "the-core"),
        "/py/lib/python3.14/asyncio/events.py": ("asyncio/events.py", PYTHON),
        "<frozen importlib._bootstrap>": ("importlib/_bootstrap.py", PYTHON),
        "/copy/apps/shop/main.py": ("shop/main.py", APPLICATION),
        "/own/benchmarks/_drivers.py": ("benchmarks/_drivers.py", "duetbench"),
        "/somewhere/else.py": ("else.py", APPLICATION),
    }
    assert {file: name_of(Code("f", file), *folders)[1:] for file in files} == files


def test_what_does_not_move_the_same_way_in_all_runs_is_not_named() -> None:
    """Both medians are 12 larger; where memory lies decides about one of them."""
    head = {**BASE, "serve": 112.0, "serve route": 212.0}
    elsewhere = {**BASE, "serve": 112.0, "serve route": 195.0}
    runs = [(calls(BASE), calls(head)), (calls(BASE), calls(elsewhere)), (calls(BASE), calls(head))]
    assert set(rows(rank(calls(BASE), calls(head), 0.005))) == {"serve", "route"}
    assert rows(rank(calls(BASE), calls(head), 0.005, runs)) == {"serve": ("both", 100, 112, None)}
