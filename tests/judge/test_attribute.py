"""An attribution from end to end: an application of somebody's own, before and after a commit.

It is one that cannot be asked without its surroundings: a POST with a private token, a lifespan, a
thread for each handler, and a file that a command makes.
"""

from pathlib import Path

import pytest

from duetbench.core.model import Case, Endpoint, Expectation, Load, LoadModel
from duetbench.judge import counted
from duetbench.judge.why.attribute import attribute
from duetbench.measure.assembly import assemble
from duetbench.measure.instructions import counting, profiling
from duetbench.measure.instructions.profiling import Code, Observed, Profile
from duetbench.measure.testbed import SideCase
from duetbench.project.deployed_target import DeployedTarget
from duetbench.project.project import Project
from duetbench.project.target import Target
from duetbench.show.change import AttributionText
from duetbench.store.attribution import APPLICATION
from duetbench.store.comparison import Instructions

SHOP = """\
import asyncio, os, pathlib

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        scope["state"]["items"] = pathlib.Path(os.environ["ITEMS"]).read_text().split()
        await receive()
        await send({"type": "lifespan.startup.complete"})
        return
    body = (await receive())["body"]
    known = (b"authorization", os.environ["TOKEN"].encode()) in scope["headers"]
    said = await asyncio.to_thread(handle, scope["state"]["items"], body)
    status = 201 if known else 401
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": said})

def handle(items, body):
    return b"%d" % priced(len(items) + len(body))
"""
BEFORE = """
def priced(count):
    return sum([number * number for number in range(20)]) + count
"""
STEPS = 2_000  # so many that what threads wait for each other is no tenth of them
AFTER = f"""
def priced(count):
    check(count)
    return sum([number * number for number in range(20)]) + count

def check(count):
    for _ in [count] * {STEPS}:
        pass
"""


@pytest.fixture
def case() -> Case:
    return Case(
        id="shop/post-orders/py3.14/c4",
        experiment="shop",
        endpoint=Endpoint(
            name="post-orders", app="shop:app", interface="asgi", method="POST", path="/orders",
            headers={"authorization": "{TOKEN}"}, body='{"item": 7}',
            expect=Expectation(status=201), floor=0,
        ),
        python="3.14", stack="project", server="uvicorn", loop="asyncio", workers=1,
        load=Load(model=LoadModel.CLOSED, connections=4, duration=1, timeout=10),
        cores="split", env={"ITEMS": "{tmp}/items"}, env_names=("TOKEN",),
        before=("echo one two three > $ITEMS",),
    )  # fmt: skip


def side(case: Case, root: Path, code: str) -> SideCase:
    """The case in a copy of the repository at one commit."""
    (root / "src").mkdir(parents=True)
    (root / "src" / "shop.py").write_text(SHOP + code)
    target = Target(app="shop:app", env={"TOKEN": "s3cret-of-ours"})
    project = DeployedTarget(root, target, root, {}, ("src",), "", {})
    found = assemble(
        project, [case], root.parent / "logs", generator=Path("oha"),
        lock=lambda _: Project.here().lock("gil-in-process"),
        interpreter=Project.here().interpreter,
    )  # fmt: skip
    return SideCase(case, found)


@pytest.mark.real
def test_entries_of_one_side_alone_are_none(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside none of the other side they would look like a change."""
    chain, folders = (Code("priced", "/shop.py"),), (tmp_path, tmp_path)
    profiles = iter([Profile({chain: {"eval": total}}, *folders) for total in (1.0, 2.0)])
    entries = iter([{"": {("priced", "/shop.py", 1): Observed(1)}}, {"": "no time"}])
    monkeypatch.setattr(profiling, "profile", lambda *_, **__: next(profiles))
    monkeypatch.setattr(profiling, "count_entries", lambda *_, **__: next(entries))
    totals = (Instructions(base=1, head=2, spread=0),)
    monkeypatch.setattr(counted, "instructions", lambda *_: totals)
    old, new = (side(case, tmp_path / name, BEFORE) for name in ("old", "new"))
    found = attribute(old, new, runs=1)
    assert [row.entries for row in found.rows] == [None]
    assert "Entries were not counted: no time" in found.notes


@pytest.mark.long
@pytest.mark.real
@pytest.mark.skipif(counting.missing() is not None, reason=f"{counting.missing()}")
def test_a_new_function_of_an_application_is_named_in_its_own_file(
    case: Case, tmp_path: Path
) -> None:
    base = side(case, tmp_path / "base", BEFORE)
    assert base.testbed.oha == Path("oha")  # not looked for
    found = attribute(base, side(case, tmp_path / "head", AFTER), runs=1)
    first = found.rows[0]
    function = first.function
    assert (function.name, function.file, function.package) == ("check", "src/shop.py", APPLICATION)
    assert (function.line, first.state, first.entries) == (23, "came", (0, 1))
    assert first.caller is not None
    assert first.caller.name == "priced"
    # Steps of 5 to 200 instructions, and all that the commit adds.
    assert found.totals is not None
    moved = found.totals.head - found.totals.base
    assert STEPS * 5 < moved < STEPS * 200
    change = found.counted.head - found.counted.base
    assert 0.9 < (first.head - first.base) / change < 1.1
    assert found.asked == "POST /orders"
    assert AttributionText(found).headline.startswith("POST /orders executes ")
    assert "s3cret-of-ours" not in found.model_dump_json()
    assert not list((tmp_path / "logs").iterdir())
