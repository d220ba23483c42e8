"""What a launch has for itself: files, variables, commands and databases, of which nothing is told.

The application is an ordinary project of somebody's: POST with a token, a data base that a command
makes, and files that it writes beside itself.
"""

import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from bench import deployed, failures, lives, undisturbed
from duetbench.app.databases import Database, find
from duetbench.app.in_process import ending
from duetbench.app.testbed import SideCase, Testbed
from duetbench.app.workspace import Workspace, forget, secrets
from duetbench.core.errors import FlagName
from duetbench.core.model import Case, Expectation, Launch, Load
from duetbench.core.text import hider
from duetbench.host import paths
from duetbench.host.ports import free_port
from duetbench.load import launch
from goldens import assert_said
from synthetic import make_case, make_endpoint

SECRET = "s3cret-of-ours"
SHOP = """\
import json, os, pathlib

orders = json.loads(pathlib.Path(os.environ["SHOP_DATABASE"]).read_text())
pathlib.Path("written").mkdir()  # another start in the same files would fail
print("token", os.environ["TOKEN"], os.environ.get("PORT"))


def create():
    async def app(scope, receive, send):
        assert scope["type"] == "http"
        body = json.loads((await receive())["body"])
        headers = dict(scope["headers"])
        known = headers[b"authorization"] == f"Bearer {os.environ['TOKEN']}".encode()
        status = 201 if known and scope["method"] == "POST" else 401
        said = json.dumps({"word": os.environ["WORD"], **orders, **body}).encode()
        length = (b"content-length", str(len(said)).encode())
        await send({"type": "http.response.start", "status": status, "headers": [length]})
        await send({"type": "http.response.body", "body": said})

    return app
"""


@pytest.fixture
def case() -> Case:
    return make_case(
        "shop/post-orders/py3.14/c4",
        endpoint=make_endpoint(
            name="post-orders", app="shop.main:create", factory=True, method="POST",
            path="/orders", headers={"authorization": "Bearer {TOKEN}"}, body='{"item": 7}',
            expect=Expectation(status=201),
        ),
        slots=None, load=Load(connections=4, duration=0.6, timeout=10),
        env={"WORD": "blue", "PORT": "{port}", "SHOP_DATABASE": "{tmp}/shop.json"},
        env_names=("TOKEN",),
        before=("""echo '{"made": true}' > $SHOP_DATABASE""", "sleep 600 & echo $! > $NOTED",
                # The first launch's would end the wait of the second one.
                ("rm -f $NOTED.daemon; "
                 "setsid -f env -i sh -c 'echo $$ > '$NOTED.daemon'; exec sleep 600'; "
                "until test -s $NOTED.daemon; do sleep 0.01; done")),
        after=(
            "test -d written && cp $SHOP_DATABASE $NOTED.after",
            "python -c 'import shop, uvicorn'",  # of the environment, and of these files
        ),
    )  # fmt: skip


@pytest.fixture
def testbed(
    case: Case, state_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Testbed:
    assert state_home.parent == tmp_path
    monkeypatch.setattr(launch, "WINDOW_SECONDS", 0.1)  # nobody keeps the figures
    root = tmp_path / "copy"
    (root / "src" / "shop").mkdir(parents=True)
    (root / "src" / "shop" / "main.py").write_text(SHOP)
    made = deployed(case, root, tmp_path / "logs", ("src",), TOKEN=SECRET).testbed
    return replace(made, inherited={**made.inherited, "NOTED": str(tmp_path / "noted")})


def perform(case: Case, testbed: Testbed) -> Launch:
    side, log = SideCase(case, testbed), testbed.logs / "server.log"
    outcome = undisturbed(lambda: launch.perform(side, log))
    assert not list((testbed.logs.parent / "state" / "duetbench" / "sessions").glob("*"))
    return outcome


def test_private_values_are_hidden_in_all_their_spellings() -> None:
    """Also lines, passwords and keys in them, and what a cut left; never users and hosts."""

    def hidden(line: str) -> str:
        value, text = line.split(" | ")
        return hider(secrets({"X": value.replace(r"\n", "\n")}))(text)

    assert_said("hidden", hidden)


@pytest.mark.real
def test_a_project_is_measured_in_files_of_its_own(
    case: Case, testbed: Testbed, tmp_path: Path
) -> None:
    """Commands around it, their processes ended, nothing left, and nothing private told."""
    for _ in range(2):
        outcome = perform(case, testbed)
        assert not failures(outcome.flags), (testbed.logs / "server.log").read_text()
        assert outcome.metrics["requests"] > 0
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == ["src"]
    assert json.loads((tmp_path / "noted.after").read_text()) == {"made": True}
    for file in ("noted", "noted.daemon"):
        assert not lives(int((tmp_path / file).read_text()))
    assert not list(paths.make_scratch().parent.glob("*/copy"))
    assert SECRET not in case.model_dump_json() + str(outcome)


@pytest.mark.real
@pytest.mark.parametrize(
    ("second", "ran", "left"),
    [
        ("echo two > two", ["one", "two", "three"], "two"),
        ("sleep 600 & echo two > two", ["one", "two", "three"], "two"),
        ("echo {port} > two", 2 * ["one", "two", "three"], None),
    ],
)
def test_commands_run_once_unless_they_use_a_port(
    second: str, ran: list[str], left: str | None, case: Case, testbed: Testbed, tmp_path: Path
) -> None:
    """Each start finds the files as the commands left them."""
    noted = tmp_path / "ran"
    words = ("echo one > {tmp}/one", second, "test $(cat {tmp}/one) = one && echo > three")
    names = ("one", "two", "three")
    before = [f"echo {name} >> {noted}; {word}" for name, word in zip(names, words, strict=True)]
    env = {name: text for name, text in case.env.items() if name != "PORT"}
    case = case.model_copy(update={"before": tuple(before), "after": (), "env": env})
    log = tmp_path / "x.log"
    for _ in range(2):
        workspace = Workspace(SideCase(case, testbed), free_port(), log)
        try:
            workspace.open()
            assert (workspace.folder / "three").is_file()
            two = (workspace.folder / "two").read_text().strip()
            assert two == (left or two)
            (workspace.folder / "two").write_text("changed")
            (workspace.folder.parent / "tmp" / "one").write_text("changed")
        finally:
            workspace.close()
    forget(tmp_path)
    assert noted.read_text().split() == ran


@pytest.mark.real
@pytest.mark.parametrize(
    ("before", "after", "breaks", "words"),
    [
        ("echo {TOKEN} is no use; exit 3", "", False,
         "is no use; exit 3': expected exit code 0, found exit code 3; it said: {TOKEN} is no use"),
        (None, "echo too late in {tmp}; exit 4", False,
         "found exit code 4; it said: too late in {tmp}"),
        # The application dies, and what it says of a secret is not told.
        ("echo '\"'$TOKEN > $SHOP_DATABASE", "", True, "{TOKEN}"),
    ],
)  # fmt: skip
def test_what_fails_around_a_server_fails_the_launch(
    case: Case, testbed: Testbed, before: str | None, after: str, breaks: bool, words: str
) -> None:
    update = {"before": (before,) if before else case.before, "after": (after or "true",)}
    if breaks:
        path = Path(testbed.subject.root, "src", "shop", "main.py")
        path.write_text(path.read_text().replace("json.loads", "exit"))
    outcome = perform(case.model_copy(update=update), testbed)
    (flag,) = [flag for flag in outcome.flags if flag.kind == "void"]
    assert flag.name is FlagName.NOT_READY
    assert words in flag.detail
    assert SECRET not in flag.detail
    assert not outcome.metrics


def test_the_end_of_an_output_has_no_part_of_a_word() -> None:
    """A part of a private value would not be known as one."""
    for text, end in (
        ("short", "short"),
        ("token=abcdefghij\nlast line", "last line"),
        ("one word-that-is-cut and more", "and more"),
        ("abcdefghijklmnopqrstuvwxyz", ""),
    ):
        assert ending(text, 16) == end


Find = Callable[..., Database]


@pytest.fixture
def database(tmp_path: Path) -> Find:
    (tmp_path / "shop.db").touch()
    names = {"DB": "shop", "HOST": "db:5432", "FILE": str(tmp_path / "shop.db")}
    return lambda text, **more: find(text, {**names, **more}, [tmp_path], Path(sys.executable))


def test_the_variable_names_the_copy_as_it_named_the_original(
    database: Find, tmp_path: Path
) -> None:
    """What cannot be copied is refused with the reason."""

    def copied(line: str) -> str:
        text, _, value = line.partition("=")
        original = database(text, URL=value.replace("{folder}", str(tmp_path)[1:]))
        assert original.name in {"shop", str(tmp_path / "shop.db")}
        copy = original.fresh(tmp_path / "launch")
        (variable,) = copy.variables.values()
        return variable.replace(copy.name, "COPY")

    assert_said("databases", copied)


@pytest.mark.parametrize("mode", ["delete", "wal", "wal, in use"])
def test_a_file_of_sqlite_stays_as_it_was(mode: str, database: Find, tmp_path: Path) -> None:
    """Also beside it nothing is left."""
    file, place = tmp_path / "shop.db", tmp_path / "launch"
    place.mkdir()
    with closing(sqlite3.connect(file)) as writer:
        writer.execute(f"pragma journal_mode = {mode.partition(',')[0]}")
        writer.execute("create table item (id integer)")
        writer.execute("insert into item values (7)")
        writer.commit()
        if not mode.endswith("in use"):
            writer.close()
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
        original = database("URL", URL="sqlite:///shop.db")
        copy = original.fresh(place)
        copy.fill(original)
        with closing(sqlite3.connect(copy.name)) as reader:
            assert reader.execute("select id from item").fetchall() == [(7,)]
            reader.execute("delete from item")
            reader.commit()
        copy.drop()
        after = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
        assert {name: before[name] for name in after if not name.endswith("-shm")} == {
            name: data for name, data in after.items() if not name.endswith("-shm")
        }
