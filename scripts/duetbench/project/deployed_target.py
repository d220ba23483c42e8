"""A target in a copy of its repository that is prepared for it; `judge.deployment` makes them.

Its cases are one per request and interpreter.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from duetbench.core.errors import UsageError
from duetbench.core.model import Case, Endpoint, Expectation, Interface, Load, LoadModel
from duetbench.host.ports import most_connections
from duetbench.project import configuration, request_lines
from duetbench.project.configuration import Configuration, Interpreter
from duetbench.project.pyproject import FILE, project_name
from duetbench.project.servers import blocks
from duetbench.project.setting import AS_DECLARED, Setting
from duetbench.project.subject import Subject
from duetbench.project.target import FOLDER, STACK, Target
from duetbench.project.target_locks import LOCKS

_COMPARED: Final = (
    FILE, ".python-version", "pylock.toml", "pylock.*.toml", "requirements*.txt", *LOCKS
)  # fmt: skip
"""Files that show in packages and interpreters, or hold for both sides."""

_THREADS: Final = 8
"""Default number of blocking threads of a WSGI server."""

_SECONDS: Final = 2.0  # of load
_TIMEOUT_S: Final = 30.0
_LONGEST: Final = 40  # characters of a request in a case's id
_WORD: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class DeployedTarget(Subject):
    """An application to measure, with its packages locked and installed in a copy of its files.

    Attributes:
        origin: The repository that was copied.
        imports: Folders, from the copy's root, on the search path of the application.
        packages: The source of its packages, for people: `uv.lock`.
        within: The copied folder's path in the repository; `.` for all of it.
        server: What serves it, unless a setting names another one.
    """

    target: Target
    origin: Path
    interpreters: Mapping[str, Interpreter]
    imports: tuple[str, ...]
    packages: str
    within: Path = Path()
    interface: Interface = "asgi"
    server: str = "granian"

    @property
    def repository(self) -> Path:
        return self.origin

    @property
    def configuration(self) -> Configuration:
        return configuration.load(self.origin)

    @property
    def version(self) -> str:
        return next(iter(self.interpreters.values())).version

    def interpreter(self, name: str) -> Interpreter:
        return self.interpreters[name]

    def original(self, case: Case) -> Path:  # noqa: ARG002
        return self.origin

    @property
    def depth(self) -> int:
        return len(self.within.parts)

    @property
    def search(self) -> tuple[str, ...]:
        return self.imports

    @property
    def inside(self) -> Path:
        return self.within

    @property
    def variables(self) -> Mapping[str, str]:
        return self.target.env

    @property
    def source(self) -> str:
        return self.packages

    @property
    def token(self) -> str:
        return self.target.token or ""

    @property
    def database(self) -> str:
        return self.target.copy_database or ""

    def reads(self, path: str, case: Case) -> bool:  # noqa: ARG002
        return not any(fnmatchcase(path.replace("../", ""), glob) for glob in _COMPARED)

    def lock_file(self, stack: str) -> Path:
        return self.root / FOLDER / f"{stack}.txt"

    def sources(self, stack: str) -> tuple[str | Path, ...]:
        return (self.lock_file(stack).with_suffix(".in"),)

    @property
    def login(self) -> Endpoint | None:
        return self._endpoint(self.target.login) if self.target.login else None

    def cases(self, setting: Setting = AS_DECLARED) -> tuple[Case, ...]:
        """Create its cases; UsageError for an invalid request, or one that cannot be served so."""
        target = self.target.model_copy(update=setting.values)
        rate = "" if target.rate is None else f"-r{target.rate:g}"
        rate += f"-i{target.idle}" if target.idle else ""
        name, blocking = project_name(self.origin), blocks(self.interface, target.loop)
        cases = [
            Case(
                id=f"{name}/{endpoint.name}/py{python}/c{target.connections}{rate}",
                experiment=name,
                endpoint=endpoint,
                python=python,
                stack=STACK,
                server=str(setting.values.get("server", self.server)),
                loop=target.loop,
                workers=target.workers,
                threads=target.threads or (_THREADS if blocking else None),
                load=Load(
                    model=LoadModel.CLOSED if target.rate is None else LoadModel.PACED,
                    connections=target.connections,
                    rate=target.rate,
                    idle=target.idle,
                    duration=_SECONDS,
                    timeout=_TIMEOUT_S,
                ),
                cores="split",
                ceiling=None if target.rate is None else "rate",
                env_names=tuple(sorted(target.env)),
                before=target.before,
                after=target.after,
                server_args=target.server_args,
                ready_timeout=target.ready_timeout,
            )
            for endpoint in self._endpoints()
            for python in self.interpreters
        ]
        if target.idle > (most := most_connections()):
            raise UsageError(
                f"--idle {target.idle}: expected at most {most}, as a process may open few files "
                "here; see ulimit -Hn"
            )
        return tuple(map(setting.apply, cases))

    def _endpoints(self) -> list[Endpoint]:
        endpoints: list[Endpoint] = []
        uses: Counter[str] = Counter()
        for line in self.target.requests:
            endpoint = self._endpoint(line)
            uses[endpoint.name] += 1
            if (number := uses[endpoint.name]) > 1:
                endpoint = endpoint.model_copy(update={"name": f"{endpoint.name}--{number}"})
            endpoints.append(endpoint)
        return endpoints

    def _endpoint(self, line: str) -> Endpoint:
        target, request = self.target, request_lines.read(line, self.origin)
        return Endpoint(
            name=_WORD.sub("-", request.title.lower()).strip("-")[:_LONGEST].strip("-"),
            app=target.app,
            interface=self.interface,
            factory=target.factory,
            method=request.method,
            path=request.paths[0],
            paths=request.paths[1:],
            # A name that applications allow, as Django's ALLOWED_HOSTS does by default.
            headers={"host": "localhost", **request.headers, **target.headers},
            body=request.body,
            expect=Expectation(status=target.expect_status),
            floor=0.0,
        )
