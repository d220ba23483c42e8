"""Targets: what keys and options come to."""

from pathlib import Path
from typing import Any

import pytest

from duetbench.core.errors import UsageError
from duetbench.core.model import Interface, LoadModel
from duetbench.host import paths
from duetbench.project import target, target_cases
from duetbench.project.target import Target
from repos import write

KEYS = """\
[project]
name = "shop"

[tool.duetbench]
app = "shop.main:app"
requests = ["GET /items/7", 'POST /orders {"item": 7}']
expect-status = 201
env = { TOKEN = "secret" }
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    write(tmp_path, "shop/pyproject.toml", KEYS)
    return tmp_path / "shop"


def test_options_win_over_keys(shop: Path) -> None:
    found = target.of(shop, {"expect-status": 200, "server": None, "before": (), "workers": 2})
    assert found is not None
    assert (found.app, found.expect_status, found.workers, found.server) == (
        "shop.main:app", 200, 2, None,
    )  # fmt: skip
    assert found.requests == ("GET /items/7", 'POST /orders {"item": 7}')
    assert target.of(shop, {"requests": ("GET /",)}).requests == ("GET /",)  # type: ignore[union-attr] # it has one


def test_a_repository_without_an_application_has_no_target(tmp_path: Path) -> None:
    assert target.of(tmp_path, {"workers": None, "env": {}, "factory": False}) is None
    with pytest.raises(UsageError, match=r"^--workers and --env: expected --app module:attribute"):
        target.of(tmp_path, {"workers": 2, "env": {"A": "b"}})


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("POST / @/etc/passwd", "/etc/passwd"),
        ("POST / @in it/../../../key", "in it/../../../key"),
        ("/{1..2}?q={@link/passwd}", "link/passwd"),
    ],
)
def test_keys_name_files_of_the_repository_only(shop: Path, line: str, name: str) -> None:
    """They may be a pull request's; who writes an option may read any file."""
    (shop.parent / ".git").mkdir()
    (shop / "link").symlink_to("/etc")
    keys = KEYS.replace("GET /items/7", "POST / @../order.json")
    write(shop, "pyproject.toml", keys)
    assert target.of(shop, {}) is not None
    write(shop, "pyproject.toml", KEYS.replace("GET /items/7", line))
    with pytest.raises(UsageError, match=rf"^{name}: expected a path in the repository"):
        target.of(shop, {})
    assert target.of(shop, {"requests": (line,)}) is not None
    write(shop, "pyproject.toml", KEYS.replace("expect-status = 201", 'results = "../../x"'))
    with pytest.raises(UsageError, match=r"^\.\./\.\./x: expected a path in the repository"):
        paths.results_dir(shop)


def test_private_variables_come_from_files_and_then_from_what_is_said(tmp_path: Path) -> None:
    write(
        tmp_path,
        "dev.env",
        "# of development\n\nexport A=1 # one\nB = 'two # 2'\nC=\"x=y\"\nD=it#self\nE=\nA2='\n",
    )
    wanted = Target.model_validate({"app": "a:b", "env-file": "dev.env", "env": {"A": "10"}})
    assert target.private(wanted, tmp_path) == {
        "A": "10", "B": "two # 2", "C": "x=y", "D": "it#self", "E": "", "A2": "'",
    }  # fmt: skip
    write(tmp_path, "dev.env", "TOKEN=a\nsecret words\n")
    with pytest.raises(UsageError, match=r"dev\.env, line 2: expected NAME=value$"):
        target.private(wanted, tmp_path)
    with pytest.raises(UsageError, match=r"none\.env: it cannot be read"):
        target.private(wanted.model_copy(update={"env_file": ("none.env",)}), tmp_path)


def test_each_request_is_a_case(shop: Path) -> None:
    wanted = target.of(shop, {"headers": {"authorization": "Bearer {TOKEN}"}})
    assert wanted is not None
    cases = target_cases.cases(wanted, shop, interface="asgi", server="uvicorn", pythons=["3.12"])
    quick = cases["quick"]
    assert [case.id for case in quick] == [
        "shop/get-items-7/py3.12/c64", "shop/post-orders/py3.12/c64",
    ]  # fmt: skip
    order = quick[1].endpoint
    assert (order.app, order.method, order.path, order.body, order.expect.status) == (
        "shop.main:app", "POST", "/orders", '{"item": 7}', 201,
    )  # fmt: skip
    assert order.headers == {
        "host": "localhost", "content-type": "application/json", "authorization": "Bearer {TOKEN}",
    }  # fmt: skip
    assert quick[1].env_names == ("TOKEN",)
    assert "secret" not in "".join(case.model_dump_json() for case in quick)
    load = quick[0].load
    assert (load.model, load.connections, load.rate) == (LoadModel.CLOSED, 64, None)
    lengths = {profile: {case.load.duration for case in many} for profile, many in cases.items()}
    assert lengths == {"quick": {2.0}, "nightly": {22.0}, "published": {30.0}}


def test_what_is_asked_for_is_what_is_measured(tmp_path: Path) -> None:
    """Every option; a rate is paced; shares and ranges are paths."""
    text = 'a "b" \\ {NAME} \x7f ü \U0001f600'
    wanted = Target.model_validate(
        {
            "app": "a.b:make", "factory": True, "workers": 2, "threads": 3, "rate": 12.5,
            "connections": 5, "requests": ("GET /i/{1..3} 2 /j 1", f"POST /k {text}", "GET /i/1-3",
            "GET /i/1/3"), "ready-timeout": "1m30s",
            "before": "python -m seed", "after": ("x", "y"),
        }
    )  # fmt: skip
    root = tmp_path / "x"
    cases = target_cases.cases(wanted, root, interface="wsgi", server="granian", pythons=["3.13t"])
    many, post, again, third = cases["quick"]
    assert many.ready_timeout == 90
    assert [case.id for case in (many, post, again, third)] == [
        "x/get-i-1-3-2-j-1/py3.13t/c5-r12.5",
        "x/post-k/py3.13t/c5-r12.5",
        "x/get-i-1-3/py3.13t/c5-r12.5",
        "x/get-i-1-3--2/py3.13t/c5-r12.5",
    ]
    assert sorted([many.endpoint.path, *many.endpoint.paths]) == [
        "/i/1", "/i/1", "/i/2", "/i/2", "/i/3", "/i/3", "/j", "/j", "/j",
    ]  # fmt: skip
    assert post.endpoint.body == text
    assert (many.threads, many.workers, many.endpoint.factory) == (3, 2, True)
    assert (many.load.model, many.load.rate, many.ceiling) == (LoadModel.PACED, 12.5, "rate")
    assert (many.before, many.after) == (("python -m seed",), ("x", "y"))


@pytest.mark.parametrize(
    ("keys", "interface", "sentence"),
    [
        (
            {},
            "wsgi",
            "--server uvicorn: expected one that speaks wsgi, as a:b does: granian, gunicorn",
        ),
        ({"loop": "rloop"}, "asgi", "--loop rloop: expected one of uvicorn's: asyncio, uvloop"),
        ({"loop": "gevent", "server": "gunicorn"}, "asgi", "gevent: expected another than gevent"),
        (
            {"loop": "gevent", "server": "gunicorn", "threads": 2},
            "wsgi",
            "--threads 2: expected no threads",
        ),
    ],
)
def test_a_server_that_cannot_serve_it_is_refused(
    keys: dict[str, Any], interface: Interface, sentence: str, tmp_path: Path
) -> None:
    wanted = Target.model_validate({"app": "a:b", **keys})
    server = wanted.server or "uvicorn"
    with pytest.raises(UsageError, match=sentence):
        target_cases.cases(wanted, tmp_path, interface=interface, server=server, pythons=["3.14"])


def test_results_of_a_target_are_kept_out_of_its_repository(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("DUETBENCH_ROOT", str(shop))
    found = paths.results_dir(shop)
    assert found.is_relative_to(tmp_path / "state" / "duetbench" / "projects")
    assert found.parent.name.startswith("shop-")
    write(shop, "pyproject.toml", KEYS.replace("expect-status = 201", 'results = "bench"'))
    assert paths.results_dir(shop) == shop / "bench"
    write(shop, "pyproject.toml", "[tool.duetbench]\n")  # experiments of its own
    assert paths.results_dir(shop) == shop / "results"
    write(shop, "pyproject.toml", "[project]\n")
    assert paths.results_dir(shop) == found


def test_no_untrusted_report_repeats_what_reads_runs_or_installs() -> None:
    unsafe = {name for name, option in target.OPTIONS.items() if option.safe is None}
    assert unsafe == {"env-file", "before", "after", "groups", "extras"}
