"""Applications of somebody's own, measured with the commands that docs/applications.md shows."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from bench import PROJECT, Bench
from duetbench.app.databases import Database
from duetbench.core.comparison import Comparison
from duetbench.core.model import Launch, Run
from duetbench.host import result_files
from repos import TUTORIAL, asgi, borrow_cache, commit, follow_tutorial, git, keep, uv

pytestmark = pytest.mark.real
SECRET = "not-to-be-recorded"
SHOP = shlex.split(
    "--app shop.main:app --path /items/7 --with connections=8"
    " --copy-database SHOP_DATABASE_URL --before 'python -m shop.seed'"
)


VALUES = {
    "PW": "Qpone4711Zpone",
    "TOKEN": "Qptwo" + "ab" * 100 + "Zptwo",
    "DSN": "postgresql://ann:Qpthree%2F88Zpthree@127.0.0.1:1/shop",
    "HOOK": "https://hooks.test/7?token=Qpfour99Zpfour",
    "LINES": "Qpfive, the first\nQpsix, the last",
    "FILED": "Qpseven77Zpseven",
}
"""Private values, of which no part with Qp or Zp may be told."""

PARTS = "[QZ]p(one|two|three|four|five|six|seven)"
TELLING = """
import http.client, logging, os, threading

print(os.environ)
PW, TOKEN, DSN, HOOK, LINES, FILED = map(os.environ.get, NAMES)
TEXTS = [PW, TOKEN, DSN, HOOK, *LINES.split("\\n"), FILED, "Qpthree/88Zpthree", HOOK[-14:]]

def work(headers):
    http.client.HTTPConnection(f"{PW}.test").putrequest("GET", "/")
    for text in TEXTS:
        logging.getLogger("shop").warning("x" * 70 + text)
        logging.getLogger("shop").error(f"{text} of 12")
        os.system(f"true '{text}'")
        threading.Thread(target=int, name=f"worker {text}").start()
        try:
            open(f"/nowhere/{text}")
        except OSError as error:
            TEXTS.append(str(error)) if len(TEXTS) < 10 else None
    return {"texts": TEXTS, "auth": headers[b"authorization"].decode()}, TOKEN
""".replace("NAMES", repr([*VALUES]))
SILENT = "def work(headers):\n    return {'texts': [], 'auth': ''}, ''\n"
SERVED = asgi(
    "import json\n",
    """answer, token = work(dict(scope["headers"]))
    more = [(b"x-token", token.encode())]
    body = json.dumps(answer).encode()""",
    "application/json",
)


def laid_out(bench: Bench, name: str) -> Path:
    """A repository of one of the projects, as its author has it, which is measured from within."""
    bench.patch.delenv("DUETBENCH_ROOT")
    borrow_cache(bench.folder / "cache", bench.patch)
    root = bench.folder / "projects" / name
    if name == "library":
        follow_tutorial(root)
    else:
        ignored = shutil.ignore_patterns("__pycache__", ".venv")
        shutil.copytree(PROJECT / "tests" / "projects" / name, root, ignore=ignored)
        if name == "shop":  # its lock names the addresses of an index, so that none is kept
            uv("lock", cwd=root)
        keep(root)
    bench.patch.chdir(root)
    return root


def measured(bench: Bench) -> tuple[Run, Launch]:
    """The only launch of the only run, which must have gone well, wherever it was recorded."""
    (path,) = result_files.runs(next((bench.folder / "state").rglob("results")))
    assert SECRET not in path.read_text("utf-8")
    run = result_files.read(Run, path)
    ((launch,),) = (result.launches for result in run.results)
    assert launch.metrics["requests"] > 100, launch.flags
    return run, launch


def test_a_service_in_src_is_measured_as_it_is(bench: Bench) -> None:
    """FastAPI, SQLAlchemy, uv.lock, settings from the environment: no file is written.

    The database is a copy, which `before` fills; each copy is dropped, also after a wrong answer.
    """
    real, filled, dropped = Database.fill, list[str](), list[str]()

    def fill(copy: Database, original: Database) -> None:
        filled.append(copy.name)
        real(copy, original)

    bench.patch.setattr(Database, "fill", fill)
    bench.patch.setattr(Database, "drop", lambda copy: dropped.append(copy.name))
    root = laid_out(bench, "shop")
    page, out = bench.folder / "run.md", bench.folder / "run.json"
    (database := bench.folder / f"{SECRET}.db").touch()
    address = f"SHOP_DATABASE_URL=sqlite:///{database}"
    once = ("run", *SHOP, "--env", address)
    bench.done(*once, "-o", page, "-o", out)
    assert "CPU per request" in page.read_text("utf-8")
    run, _ = measured(bench)
    bench.refused("expected status 201, found 200", *once, "--with", "expect-status=201")
    assert sorted(dropped) == sorted(filled) != []
    assert database.read_bytes() == b""
    assert json.loads(out.read_text("utf-8")) == run.model_dump(mode="json")
    assert run.results[0].case.env_names == ("SHOP_DATABASE_URL",)
    assert not git(root, "status", "--porcelain")


@pytest.mark.long
def test_the_tutorial_finds_what_it_says(bench: Bench) -> None:
    """Its files, its commits, and its comparison, of which nobody waits for the load."""
    (output,) = re.findall(r"```text\n(GET .*?)```", TUTORIAL, re.DOTALL)
    commands = re.findall(r"^\$ (duetbench .*)$", TUTORIAL, re.MULTILINE)
    root = laid_out(bench, "library")
    result = bench(*shlex.split(commands[0])[1:], "--budget", "1s")
    headline, *statements = output.splitlines()
    assert headline.partition(" (seen")[0] in result.out, result
    for words in "  ".join(statements).split("  "):
        assert words.strip() in result.out, (words, result.out)
    bench.done(*shlex.split(commands[2])[1:])
    assert 'app = "library:app"' in (root / "duetbench.toml").read_text()


def telling(words: str, bench: Bench, root: Path) -> list[Path]:
    """The files outside of the repository, of whatever kind, that have these words."""
    return [
        file
        for file in bench.folder.rglob("*")
        if file.is_file() and not file.is_relative_to(root) and "/environments/" not in str(file)
        if re.search(words, file.read_text("utf-8", "replace"))
    ]


def _is_log(file: Path) -> bool:
    return "/duetbench/logs/" in str(file)


LOGIN = """
import asyncio, json, logging, os, secrets
from urllib.parse import parse_qsl

WORD = "".join(secrets.choice("aeiou") for _ in range(12))  # looks like no random text
TOKEN, SESSION = f"Qp{WORD}Zp", f"Qp{secrets.token_hex()}Zp"
KEPT, LOOPS = f"session={SESSION}; HttpOnly", set()

def answer(path, body, authorization, cookie):
    sent = dict(parse_qsl(body.decode()))
    if path == "/login":
        right = sent == {"user": "ann", "password": os.environ["PW"]}
        told = {"wrong": sent, **({"data": {"token": TOKEN}} if right else {})}
        return 200 if right else 403, json.dumps(told).encode()
    logging.warning("for " + TOKEN)
    WORK
    right = (authorization, cookie) == (f"Bearer {TOKEN}", f"a=b; session={SESSION}")
    return 200 if right else 401, json.dumps([TOKEN, SESSION]).encode()
"""
LOGGED_IN = asgi(
    LOGIN,
    """sent, headers = (await receive())["body"], dict(scope["headers"])
    values = (headers.get(name, b"").decode() for name in (b"authorization", b"cookie"))
    status, body = answer(scope["path"], sent, *values)
    LOOPS.add(asyncio.get_running_loop())
    status = 500 if len(LOOPS) > 1 else status
    more = [(b"set-cookie", KEPT.encode())]""",
)


@pytest.mark.long
def test_who_is_logged_in_is_measured_and_told_nowhere(bench: Bench) -> None:
    """Each process has its own token and session; the answer tells both, and a log the token."""
    root = laid_out(bench, "bare")
    for work in ("pass", "open(__file__).close()"):
        (root / "bare.py").write_text(LOGGED_IN.replace("WORK", work))
        commit(root, "As it is")
    given = shlex.split(
        "--app bare:app --header 'Cookie: a=b' --with token=data.token"
        " --login 'POST /login user=ann&password=QpsecretZp'"
    )
    page = bench.folder / "found.json"
    compared = ("compare", "HEAD~1", *given, "--only", "effects")
    result = bench(*compared, "--env=PW=QpsecretZp", "-o", page)
    actual = result_files.read(Comparison, page)
    (case,) = actual.cases
    assert case.effects is not None, result.out
    moved = {effect.kind: (effect.base, effect.head) for effect in case.effects.differ}
    assert (moved["read"], case.effects.answers) == ((0, 1), ())
    ran = bench("run", *given, "--env=PW=QpsecretZp", "--with", "connections=8")
    assert (ran.code, measured(bench)[0].results[0].launches[0].status) == (0, "ok"), ran
    for words, code in ((compared, 2), (("run", *given), 3)):
        sentence = "expected to be logged in, found status 403"
        wrong = bench.refused(sentence, *words, "--env=PW=other", code=code)
        assert "{login}" in wrong.err
    assert not re.search("Qp[a-z0-9]+Zp", f"{result} {ran} {wrong}")
    assert all(map(_is_log, telling("Qp[a-z0-9]+Zp", bench, root)))


def test_private_values_are_told_nowhere(bench: Bench) -> None:
    """Whatever an application does with them. Logs may tell them, to their user."""
    root = laid_out(bench, "bare")
    for text in (SILENT, TELLING):
        (root / "bare.py").write_text(text + SERVED)
        commit(root, "As it is")
    (root / "dev.env").write_text(f"FILED={VALUES['FILED']}\n")
    given = [f"--env={name}={value}" for name, value in VALUES.items() if name != "FILED"]
    given += ["--env-file", "dev.env", "--header", "Authorization: Bearer {TOKEN}"]
    files_of = [bench.folder / name for name in ("found.json", "found.md", "found.html")]
    wanted = ("--control", "--budget", "1s", *(word for file in files_of for word in ("-o", file)))
    result = bench("compare", "HEAD~1", "--app", "bare:app", *given, *wanted)
    assert "log records" in result.out + bench("show", files_of[0]).out, result
    assert all(file.is_file() for file in files_of)
    refused = bench("compare", "HEAD~1", "--app", "bare:app", *given, "--before", "env; exit 3")
    assert "expected exit code 0, found exit code 3; it said:" in refused.err, refused
    assert not re.search(PARTS, f"{result} {refused}")
    logs = telling(PARTS, bench, root)
    assert all(map(_is_log, logs))
    assert {log.stat().st_mode & 0o777 for log in logs} == {0o600}
    folders = {folder for log in logs for folder in log.parents if folder.name == "logs"}
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}
