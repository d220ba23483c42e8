"""The room of foreign code: a folder of a lesser user of this machine, empty before and after.

In it are the caches and folders that duetbench uses, none of them shared with anybody. What set-up
has made for the machine itself (interpreters, load generator, environments) is linked into it: the
other user can read that, and cannot write to it.
"""

import os
import pwd
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

import psutil
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from duetbench.core.errors import ArtifactError, SetupError
from duetbench.host import cache as artefact
from duetbench.host import proc
from duetbench.host.machine_lock import HOLDER
from duetbench.store.files import first_problem

CONFIG_VARIABLE: Final = "DUETBENCH_FLEET"
"""Names another file than the usual one, for trying out. The runner's hook never looks at it."""

CONFIG: Final = Path("/etc/duetbench/fleet.json")
LIBRARY: Final = Path("/usr/local/lib/duetbench")


def _may_be_emptied(room: Path) -> Path:
    if not room.is_absolute() or len(room.parts) < 3:
        raise ValueError("expected the absolute path of a folder that may be emptied")
    return room


class RunnerConfig(BaseModel):
    """What `duetbench ci fleet` needs of the file; the hook reads the rest."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    user: str = Field(pattern=r"^[a-z][a-z0-9_-]*$", description="Foreign code runs as this user.")
    room: Annotated[Path, AfterValidator(_may_be_emptied)] = Field(
        description="A folder of that user's own, emptied around each comparison."
    )
    passes: tuple[str, ...] = Field(
        default=(), description="Variables that foreign code gets of the runner's, as a proxy's."
    )


def config_file() -> Path:
    """Where the file is."""
    return Path(os.environ.get(CONFIG_VARIABLE) or CONFIG)


def read_config(path: Path | None = None) -> RunnerConfig:
    """Read it; raises SetupError."""
    path = path or config_file()
    try:
        return RunnerConfig.model_validate_json(path.read_bytes())
    except OSError as error:
        raise SetupError(
            f"{path}: {error.strerror}: this machine is not prepared to run foreign code; "
            "scripts/prepare-runner.sh does that (docs/runners.md)"
        ) from error
    except ValidationError as error:
        raise SetupError(
            f"{path}: {first_problem(error)}; run scripts/prepare-runner.sh"
        ) from error


_TIMEOUT_S: Final = 120
_LIMITS: Final = ("--nproc=8192", "--fsize=4294967296", "--core=0")
"""Threads and bytes of one file: far above what any server here needs, far below the machine's."""

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ATTEMPTS: Final = 20
_KILL_ALL: Final = "kill -KILL -1"  # all that the user may signal, but for this shell

FOLDERS: Final = ("home", "tmp", "state", "out", "cache/duetbench")
_SHARED: Final = ("environments/*", "interpreters/*", "tools/*")
PATIENCE_S = 30
"""Seconds for reading a result; a pipe gives none."""

_ELSEWHERE: Final = "/tmp /var/tmp /dev/shm"  # noqa: S108 - emptied, never trusted
_EMPTY: Final = f"""
chmod -R u+rwx "$1" 2>/dev/null
find "$1" -mindepth 1 -delete || exit 1
find {_ELSEWHERE} -mindepth 1 -maxdepth 1 -user "$2" ! -path "$1" -exec rm -rf {{}} + 2>/dev/null
exit 0
"""


class OtherUser:
    """One user of this machine, and everything that can be done as them.

    As root, the change is made without sudo; programs can never gain privileges back.
    """

    def __init__(self, name: str) -> None:
        """Find the user; raises SetupError."""
        try:
            entry = pwd.getpwnam(name)
        except KeyError as error:
            raise SetupError(
                f"this machine has no user {name!r} for foreign code: scripts/prepare-runner.sh "
                "makes one"
            ) from error
        if entry.pw_uid in {0, os.geteuid()}:
            raise SetupError(
                f"foreign code would run as {name}, who is "
                f"{'root' if entry.pw_uid == 0 else 'ourselves'}: expected a lesser user"
            )
        self.name, self.uid, self.gid = name, entry.pw_uid, entry.pw_gid

    def command(
        self, argv: Sequence[str | Path], env: Mapping[str, str], folder: Path
    ) -> list[str | Path]:
        """The command line that runs a program as that user."""
        change: list[str | Path] = ["sudo", "-n", "-u", self.name, "--"]
        change += ["setpriv", "--no-new-privs", "--"]
        if os.geteuid() == 0:
            change = ["setpriv", f"--reuid={self.uid}", f"--regid={self.gid}"]
            change += ["--clear-groups", "--no-new-privs", "--"]
        variables = [f"{name}={value}" for name, value in env.items()]
        # The folder is entered as that user: it may be closed to us.
        return [*change, "env", "-i", "-C", folder, *variables, "prlimit", *_LIMITS, "--", *argv]

    def run(
        self, argv: Sequence[str | Path], given: bytes = b"", *, check: bool = True
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a short program and wait for it; raises SetupError."""
        command = self.command(argv, {"PATH": PATH, "LANG": "C.UTF-8"}, Path("/"))
        try:
            done = subprocess.run(
                command, input=given, capture_output=True, check=False, timeout=_TIMEOUT_S
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise SetupError(f"{argv[0]} could not be run as {self.name}: {error}") from error
        if check and done.returncode != 0:
            said = ascii(done.stderr.decode("utf-8", "replace").strip()[-200:])
            raise SetupError(
                f"{argv[0]}, run as {self.name}, ended with exit code {done.returncode}; it said: "
                f"{said}. May this user become {self.name} (scripts/prepare-runner.sh)?"
            )
        return done

    def start(
        self, argv: Sequence[str | Path], env: Mapping[str, str], folder: Path
    ) -> subprocess.Popen[bytes]:
        """Start a program; what it says comes through a pipe of ours; raises SetupError."""
        try:
            return subprocess.Popen(
                self.command(argv, env, folder),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            raise SetupError(f"nothing can be run as {self.name}: {error}") from error

    def end_all(self) -> None:
        """End everything that runs as that user, however it was started; raises SetupError."""
        for _ in range(_ATTEMPTS):  # who forks fast enough escapes the first ones
            # Ends with 1 where there is nobody to end.
            self.run(["/bin/sh", "-c", f"{_KILL_ALL} 2>/dev/null; exit 0"])
            left = self.running()
            if not left:
                return
            proc.wait_ended(left, 1.0)
        raise SetupError(
            f"processes of {self.name} go on whatever is done (pids {sorted(self.running())}): "
            "restart this machine"
        )

    def running(self) -> set[int]:
        """The pids of what runs as that user."""
        found = psutil.process_iter(["uids", "status"])
        return {
            process.pid
            for process in found
            if process.info["uids"] is not None
            and self.uid in process.info["uids"]
            and process.info["status"] not in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}
        }


class Room:
    """One room of one user."""

    def __init__(self, user: OtherUser, folder: Path) -> None:
        self.user, self.folder = user, folder

    def empty(self) -> None:
        """End what runs as the user, and remove all that it has left; raises SetupError."""
        self.user.end_all()
        self.user.run(["/bin/sh", "-c", _EMPTY, "empty", self.folder, str(self.user.uid)])

    def furnish(self, cache: Path) -> None:
        """Lay out the folders, and link what is made already; raises SetupError."""
        ours = self.folder / "cache" / "duetbench"
        folders = [self.folder / name for name in FOLDERS]
        folders += [(ours / pattern).parent for pattern in _SHARED]
        self.user.run(["mkdir", "-p", "--", *folders])
        if pairs := [(made, ours / made.relative_to(cache)) for made in _shared(cache)]:
            given = "\0".join(str(path) for pair in pairs for path in pair).encode()
            self.user.run(["xargs", "-0", "-n", "2", "ln", "-s", "-T", "--"], given)

    def hand(self, name: str, data: bytes) -> None:
        """Put a file into the room, as its own user; raises SetupError."""
        script = 'mkdir -p -- "$(dirname -- "$1")" && cat >"$1"'
        self.user.run(["/bin/sh", "-c", script, "hand", self.folder / name], data)

    def environment(self) -> dict[str, str]:
        """What a program in it finds in its environment."""
        return {
            "PATH": PATH,
            "LANG": "C.UTF-8",
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "XDG_STATE_HOME": str(self.folder / "state"),
            HOLDER: str(os.getpid()),  # it measures for us, who hold the machine
        }

    def require_readable(self, *files: Path) -> None:
        """Make sure that the user can read what it needs of ours; raises SetupError."""
        for file in files:
            if self.user.run(["test", "-r", file], check=False).returncode != 0:
                raise SetupError(
                    f"{file} cannot be read by {self.user.name}: the runner's work folder and "
                    "cache must be open for reading (docs/runners.md)"
                )

    def collect(self, name: str, most: int) -> bytes:
        """Read a file of the room as its own user: it may be a link to anywhere.

        ArtifactError: it is not there, or larger.
        """
        return self._collected(["head", "-c", str(most + 1), self.folder / name], name, most)

    def collect_folder(self, parent: str, name: str, most: int) -> bytes:
        """Pack a folder of the room as its own user: an archive of tar; errors as of `collect`."""
        script = 'tar --create --file=- --directory "$1" -- "$2" | head -c "$3"'
        words = ("pack", self.folder / parent, name, str(most + 1))
        return self._collected(["/bin/sh", "-c", script, *words], name, most)

    def _collected(self, argv: Sequence[str | Path], name: str, most: int) -> bytes:
        try:
            found = self.user.run(["timeout", str(PATIENCE_S), *argv])
        except SetupError as error:
            raise ArtifactError(f"no {name} came out: {error}") from error
        if len(found.stdout) > most:
            raise ArtifactError(f"{name} has more than {most:,} bytes")
        return found.stdout


def _shared(cache: Path) -> Iterator[Path]:
    """What of a cache foreign code may use: finished things that nothing changes any more."""
    for pattern in _SHARED:
        for made in sorted(cache.glob(pattern)):
            kinds = [made] if artefact.facts(made) is not None else [*made.glob("*")]
            if not made.name.startswith(".") and any(artefact.facts(k) is not None for k in kinds):
                yield made
