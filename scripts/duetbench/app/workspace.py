"""The surroundings of a launch: scratch folder, working copy, variables, and commands.

An application finds everything unchanged at each start: a target starts in a fresh copy of its
files, of `{tmp}` and of its database, as the commands `before` left them, which run once per side.
No process of a command outlives it.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Hashable, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from threading import Lock
from typing import Final, Self
from urllib.parse import quote, unquote

from duetbench.app import databases
from duetbench.app.programs import identified, private_parts
from duetbench.app.testbed import SideCase, fill, variables_of
from duetbench.core.errors import FlagName, LaunchError
from duetbench.core.model import Endpoint
from duetbench.core.text import HIDDEN, hider
from duetbench.host import paths, ports
from duetbench.host.command import AT, last_words, read_log
from duetbench.host.process_session import Session

COMMAND_SECONDS: Final = 300.0  # for a command before or after a server: it may fill a database
_KEYS: Final = re.compile(
    r"(?i)//(?:[^/@:\s]*:)?([^/\s]+)@"
    r"|(?:pass|pwd|secret|token|key|sig|auth)\w*(?:=([^&;#\s]+)|\"\s*:\s*\"([^\"]+))"
)
"""The password in a URL, or else its user; and what the names of settings call secret."""
_SECRET_URL: Final = re.compile(r"://[^/@\s]+@")
_SECRET_NAME: Final = re.compile(r"PASS|SECRET|TOKEN|KEY|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)


def secret_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return those whose names or values look like secrets, which no output may repeat."""
    return {
        name: text
        for name, text in variables.items()
        if _SECRET_NAME.search(name) or _SECRET_URL.search(text)
    }


def secrets(values: Mapping[str, str]) -> dict[str, str]:
    """Map all texts that tell private values to `{NAME}`: each, its lines, and the keys in it.

    Also as JSON and URLs spell them. A password that is the user's name as well is no secret.
    """
    names: dict[str, str] = {}
    for name, value in values.items():
        keys = [key for pair in _KEYS.findall(value) for key in pair if value.count(key) == 1]
        for text in (value, *value.splitlines(), *keys, *map(unquote, keys)):
            escaped = (json.dumps(text, ensure_ascii=plain)[1:-1] for plain in (True, False))
            if len(text) >= HIDDEN:
                names |= dict.fromkeys((text, quote(text, safe=""), *escaped), f"{{{name}}}")
    return names


def _fill_in(endpoint: Endpoint, values: Mapping[str, str]) -> Endpoint:
    headers = {name.lower(): fill(text, values) for name, text in endpoint.headers.items()}
    # An answer may repeat it, so all clients send the same.
    headers.setdefault("user-agent", "duetbench")
    return endpoint.model_copy(update={"headers": headers, "body": fill(endpoint.body, values)})


class Workspace:
    """The surroundings of one launch; `open` before its server starts, `close` after it stopped.

    What `prepare` keeps is a workspace as well.
    """

    def __init__(self, side: SideCase, port: int, log: Path) -> None:
        """Make an empty folder; `close` removes it. Cases that share a server share a workspace."""
        testbed, case, self._side, self._log = side.testbed, side.case, side, log
        self._original: databases.Database | None = None
        if named := testbed.subject.target.copy_database:
            known = variables_of(case, testbed.private)
            self._original = databases.find(
                named, {**testbed.inherited, **testbed.private, **known}, side.folders, side.python
            )
        self._database: databases.Database | None = None
        self._place = paths.make_scratch()
        self.request = self._place / "request.json"  # for a program that makes requests
        self._tmp = self._place / "tmp"
        self._tmp.mkdir()
        places = {"tmp": str(self._tmp), "port": str(port)}
        private = {name: fill(text, places) for name, text in testbed.private.items()}
        self._values = {**private, **places}
        self.login = (login := testbed.subject.login) and _fill_in(login, self._values)
        self.identity: Mapping[str, str] = {}  # headers that the login gave
        self.secrets = dict[str, str]()
        body = self.login.body if self.login else ""
        self._keep({**secret_variables(testbed.inherited), **private, "login": body})
        folder = side.folder
        root, top = testbed.subject.root, side.top(folder)
        self.root = self._place / "copy"
        self._copy = self.root / top.relative_to(root) if top.is_relative_to(root) else self.root
        # Where the server and the commands are started.
        self.folder = self._copy / folder.relative_to(top)
        if folder == root:
            self.root = self.folder
        self._opened = self._closed = False

    def environment(self) -> dict[str, str]:
        variables = self._side.environment(self.folder, self._values)
        return {**variables, **(self._database.variables if self._database else {})}

    def fill_in(self, endpoint: Endpoint) -> Endpoint:
        """Return an endpoint as the generator requests it, with all values filled in."""
        filled = _fill_in(endpoint, self._values)
        headers = identified(filled.headers, self.identity)
        return filled.model_copy(update={"headers": headers})

    def identify(self, headers: Mapping[str, str]) -> None:
        """Send these headers with all further requests, and hide what they tell."""
        self.identity = headers
        for text in private_parts(headers):
            self._keep({"login": text})

    def _keep(self, private: Mapping[str, str]) -> None:
        """Hide these values as well."""
        self.secrets |= secrets(private)
        self.hide_values = hider(self.secrets)

    def hide(self, text: str) -> str:
        """Remove private values, and the names of this workspace's folders, from a text."""
        text = self.hide_values(text)
        return text.replace(str(self._tmp), "{tmp}").replace(str(self._place / "copy"), ".")

    def open(self) -> None:
        """Copy what was prepared, or run the commands `before` here; LaunchError not_ready."""
        prepared = prepare(self._side, self._log)
        self.fill(prepared)
        self._opened = True
        if prepared is None:
            self.run(self._side.case.before, "before")

    def fill(self, source: "Workspace | None") -> None:
        """Copy files and database of another workspace; None: the originals."""
        self._copy.parent.mkdir(parents=True, exist_ok=True)
        top = self._side.top(self._side.folder)
        _copy_files(source._copy if source else top, self._copy)
        if source:
            _copy_files(source._tmp, self._tmp)
        original = source._database if source else self._original
        if original:
            self._database = original.fresh(self._place)
            self._database.fill(original)
            self._values |= self._database.variables
            self._keep(self._database.variables)

    def close(self) -> None:
        """Run the commands `after`, and remove all files.

        LaunchError not_ready, or stray_process. A second call does nothing. As a context manager
        it raises nothing in place of an exception of the block.
        """
        if self._closed:
            return
        self._closed = True
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, self._place, ignore_errors=True)
            if self._database:
                stack.callback(self._database.drop)
            if self._opened:
                self.run(self._side.case.after, "after")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        with suppress(LaunchError) if error else nullcontext():
            self.close()

    def run(self, commands: Sequence[str], when: str) -> None:
        """Run commands, each to its end, which is that of all its processes."""
        for number, command in enumerate(commands):
            log = self._log.with_suffix(f".{when}-{number}.log")
            argv = ("sh", "-c", fill(command, self._values))
            code = self.execute(argv, COMMAND_SECONDS, log, recorded=("sh", "-c", command))
            if code != 0:
                running = f"it still running after {COMMAND_SECONDS:.0f} s"
                outcome = running if code is None else f"exit code {code}"
                words = last_words(self.hide_values(read_log(log)))
                raise LaunchError(
                    FlagName.NOT_READY,
                    f"{when} {command!r}: expected exit code 0, found {outcome}; "
                    f"it said: {words}{AT}{log}",
                )

    def execute(
        self, argv: Sequence[str], seconds: float, log: Path, recorded: Sequence[str] | None = None
    ) -> int | None:
        """Run a program of the application's environment here, and end all its processes.

        Return its exit code; None: it did not end in time. LaunchError: it cannot be started.
        """
        variables = self.environment()
        # `python` is the application's; the server's own PATH stays as it is.
        programs, path = str(self._side.python.parent), variables.get("PATH", os.defpath)
        with Session.start(
            argv, recorded=recorded, role="command", cores=None,
            env={**variables, "PATH": os.pathsep.join((programs, path))},
            cwd=self.folder, log=log,
        ) as session:  # fmt: skip
            return session.wait(seconds)


_PREPARED: Final[dict[tuple[Path, Hashable], Workspace | None]] = {}
_PREPARING: Final = Lock()


def prepare(side: SideCase, log: Path) -> Workspace | None:
    """Run the commands `before` once, and keep what the launches of a side then begin with.

    None: there is nothing to keep, or it would not be the same at another port. LaunchError
    not_ready.
    """
    case, testbed = side.case, side.testbed
    variables = tuple(sorted(case.env.items())), tuple(sorted(testbed.private.items()))
    key = side.folder, (case.before, variables, case.python, side.stack.digest)
    texts = *case.before, *case.env.values(), *testbed.private.values()
    with _PREPARING, ExitStack() as stack:
        wanted = case.before or testbed.subject.target.copy_database
        if wanted and key not in _PREPARED and not any("{port}" in text for text in texts):
            own = Workspace(side, ports.free_port(), log.with_suffix(".before.log"))
            stack.enter_context(own)
            own.fill(None)
            own.run(case.before, "before")
            _PREPARED[key] = own
            stack.pop_all()
        return _PREPARED.setdefault(key, None)


def forget(folder: Path) -> None:
    """Remove what was prepared from copies in a folder."""
    for key in [key for key in _PREPARED if key[0].is_relative_to(folder)]:
        if workspace := _PREPARED.pop(key):
            with suppress(LaunchError):
                workspace.close()


def _copy_files(folder: Path, place: Path) -> None:
    """Copy all files of a folder as they are, which takes no room where the disk can share it."""
    command = ("cp", "-a", f"{folder}/.", str(place))
    process = subprocess.run(
        command, check=False, capture_output=True, encoding="utf-8", errors="replace"
    )
    if process.returncode:
        raise LaunchError(FlagName.NOT_READY, f"cp {folder}: {last_words(process.stderr)}")
