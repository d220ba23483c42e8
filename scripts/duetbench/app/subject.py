"""The subject of a measurement: an application in a copy of its repository, with its packages.

`app.deployment` makes the copies and installs the packages. The cases are one per request and
interpreter.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import ClassVar, Final

from duetbench.app import request_lines, stacks, target
from duetbench.app.declarations import FILE, project_name, results_dir
from duetbench.app.interpreters import Interpreter
from duetbench.app.servers import blocks
from duetbench.app.stacks import Stack
from duetbench.app.target import AS_DECLARED, FOLDER, STACK, Configuration, Setting, Target
from duetbench.core.model import Case, Endpoint, Expectation, Interface, Load

_COMPARED: Final = (
    FILE, ".python-version", "requirements*.txt", "uv.lock", "poetry.lock", "pdm.lock",
    "Pipfile.lock",
)  # fmt: skip
"""Files that show in packages and interpreters, or hold for both sides."""

_THREADS: Final = 8
"""Default number of blocking threads of a WSGI server."""

_SECONDS: Final = 2.0  # of load
_TIMEOUT_S: Final = 30.0

UNDECLARED: Final = Target(app="none:none")
"""The target where other files declare the cases."""


@dataclass(frozen=True)
class Subject:
    """What is measured, and with what.

    Attributes:
        root: The copy of the repository.
        target: How it is served, and its requests.
        interpreters: By name; the first is that for which locks are read.
        origin: The repository that was copied; None: `root` itself.
        inside: The path of `root` in the copy of a repository that it is; None: it is the
            repository.
        search: Folders that the application is imported from, as paths from its own.
        source: The file that its packages were read from, for people: `uv.lock`.
        server: What serves it, unless a setting names another one.
    """

    fixed: ClassVar[bool] = False
    """Whether loads and variables are just as declared, and do not follow the application and the
    shell."""

    root: Path
    _: KW_ONLY
    target: Target = UNDECLARED
    interpreters: Mapping[str, Interpreter] = field(default_factory=dict)
    origin: Path | None = None
    inside: Path | None = None
    search: tuple[str, ...] = ()
    source: str = ""
    interface: Interface = "asgi"
    server: str = "granian"

    @property
    def repository(self) -> Path:
        """The repository that this is, or is a copy of."""
        return self.origin or self.root

    @property
    def configuration(self) -> Configuration:
        """The settings of the repository; raises DeclarationError if they are invalid."""
        return target.configuration(self.repository)

    @property
    def results(self) -> Path:
        return results_dir(self.repository)

    @property
    def code(self) -> Path:
        """The folder of the applications."""
        return self.root

    def folder(self, case: Case) -> Path:  # noqa: ARG002 - of other subjects
        """Return the folder of a case's application."""
        return self.code

    def original(self, case: Case) -> Path:
        """Return that folder as its user has it."""
        return self.origin or self.folder(case)

    @property
    def depth(self) -> int:
        """Levels of that folder below what each launch gets a copy of."""
        return len(self.inside.parts) if self.inside else 0

    @property
    def login(self) -> Endpoint | None:
        """The request that identifies the client of all others."""
        return self._endpoint(self.target.login) if self.target.login else None

    def reads(self, path: str, case: Case) -> bool:  # noqa: ARG002 - of other subjects
        """Whether a case's application may read a file of the repository.

        Not if a change of it shows in cases, packages or interpreters.
        """
        return not any(fnmatchcase(path.replace("../", ""), glob) for glob in _COMPARED)

    @property
    def home(self) -> Path | None:
        """The folder to which locks name files of the project itself; None: they name none."""
        return None if self.fixed else self.root

    def lock_file(self, stack: str) -> Path:
        """Return the place of a stack's lock."""
        return self.root / FOLDER / f"{stack}.txt"

    def sources(self, stack: str) -> tuple[str | Path, ...]:
        """Return the arguments by which uv finds what a stack requires."""
        return (self.lock_file(stack).with_suffix(".in"),)

    def lock(self, stack: str) -> Stack:
        """Read a declared stack's lock.

        Raises UsageError if there is no such stack, SetupError if it was never locked, and
        DeclarationError if the lock has lines other than pinned packages.
        """
        return self.read_lock(stack, self.lock_file(stack))

    def read_lock(self, stack: str, file: Path) -> Stack:
        """Read a lock from any file; raises like `lock`."""
        return stacks.read_lock(stack, file, self.version, self.home)

    @property
    def version(self) -> str:
        """The version of Python that locks are read for: that of the first interpreter."""
        return next(iter(self.interpreters.values())).version

    def interpreter(self, name: str) -> Interpreter:
        """Find an interpreter; UsageError: it is unknown, SetupError: it is not installed."""
        return self.interpreters[name]

    def cases(self, setting: Setting = AS_DECLARED) -> tuple[Case, ...]:
        """List all cases as a setting says; UsageError, also if they cannot be served like that."""
        return tuple(map(setting.apply, self.declared_cases(setting)))

    def declared_cases(self, setting: Setting = AS_DECLARED) -> list[Case]:
        """List all cases with a setting's values alone, whether or not their server can do that."""
        target = self.target.model_copy(update=setting.values)
        rate = "" if target.rate is None else f"-r{target.rate:g}"
        name, blocking = project_name(self.repository), blocks(self.interface, target.loop)
        return [
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
                    connections=target.connections,
                    rate=target.rate,
                    duration=_SECONDS,
                    timeout=_TIMEOUT_S,
                ),
                cores="split",
                env_names=tuple(sorted(target.env)),
                before=target.before,
                after=target.after,
                server_args=target.server_args,
                ready_timeout=target.ready_timeout,
            )
            for endpoint in self._endpoints()
            for python in self.interpreters
        ]

    def _endpoints(self) -> list[Endpoint]:
        """Read the requests; of several with one name, all but the first get a number."""
        endpoints = [self._endpoint(line) for line in self.target.requests]
        names = [endpoint.name for endpoint in endpoints]
        again = [names[:place].count(name) + 1 for place, name in enumerate(names)]
        return [
            item.model_copy(update={"name": f"{item.name}--{number}"}) if number > 1 else item
            for item, number in zip(endpoints, again, strict=True)
        ]

    def _endpoint(self, line: str) -> Endpoint:
        target = self.target
        like = Endpoint(
            name="",
            app=target.app,
            interface=self.interface,
            factory=target.factory,
            path="/",
            headers=target.headers,
            expect=Expectation(status=target.expect_status),
            floor=0.0,
        )
        return request_lines.read(line, self.repository, like)
