"""The environment in which the application already runs: its Python, packages and own folders.

Whoever types a command has one in which the application starts and its tests pass. Both sides use
its packages, by links in an environment of the cache: what a launch compiles or adds (a server that
is not installed) stays there. What the repository installs of itself comes later on the search path
than each side's own copy of the files.
"""

import ast
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from duetbench.core.errors import SetupError

_MARK: Final = re.compile(r"# installed for (.+) in (.+)\n")
"""The first line of an environment's lock: its Python and the repository."""

_FOLDERS: Final = (".venv", "venv", "env", ".env")
_TOOLS: Final[Mapping[str, tuple[str, ...]]] = {
    "poetry.lock": ("poetry", "env", "info", "--executable"),
    "pdm.lock": ("pdm", "info", "--python"),
    "Pipfile.lock": ("pipenv", "--py"),
}
"""Lock of a tool that may keep environments elsewhere → how it tells their Python."""

_SITES: Final = """
import json, os, sys
sites = [p for p in sys.path if os.path.basename(p) in ("site-packages", "dist-packages")]
print(json.dumps({"sites": sites, "version": sys.version_info[:2],
    "suffix": getattr(sys, "abiflags", "").replace("d", "")}))
"""
_SECONDS: Final = 20
_SHEBANG: Final = 300  # bytes in which a script names its Python
_COMPILED: Final = (".so", ".pyd")


@dataclass(frozen=True)
class Environment:
    """An environment of somebody's, which is only read.

    Attributes:
        executable: Its Python, as a path in it.
        label: What people call it: `.venv`.
        top: The repository.
        chosen: Whether somebody made it for the project, or entered it.
    """

    executable: Path
    label: str
    top: Path
    chosen: bool = True

    @cached_property
    def _facts(self) -> dict[str, Any]:
        """Ask its Python; raises SetupError if that does not run."""
        variables = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        try:
            process = subprocess.run(
                [self.executable, "-c", _SITES],
                capture_output=True, check=True, timeout=_SECONDS, env=variables, cwd="/",
            )  # fmt: skip
            return dict(json.loads(process.stdout))
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise SetupError(f"{self.executable} does not run: {error}") from error

    @property
    def sites(self) -> tuple[Path, ...]:
        """Its folders of packages, in the order of its search path."""
        return tuple(Path(place) for place in self._facts["sites"])

    @cached_property
    def _infos(self) -> dict[str, Path]:
        """Map names to the metadata of the installed packages, the first on the search path."""
        infos: dict[str, Path] = {}
        for site in self.sites:
            for place in sorted(site.glob("*.dist-info")):
                name, _, version = place.stem.rpartition("-")
                with suppress(InvalidVersion):
                    Version(version)
                    infos.setdefault(canonicalize_name(name), place)
        return infos

    @cached_property
    def packages(self) -> dict[str, str]:
        """Name → version of what is installed in it."""
        return {name: place.stem.rpartition("-")[2] for name, place in self._infos.items()}

    def has(self, requirement: Requirement) -> bool:
        """Whether a package is installed; of one that nobody chose, in a version that fits."""
        version = self.packages.get(canonicalize_name(requirement.name), "")
        return bool(version) and (
            self.chosen or requirement.specifier.contains(version, prereleases=True)
        )

    @cached_property
    def lock(self) -> str:
        """What is installed, as lines of a lock; another one after any change."""
        lines = [f"# installed for {self.executable} in {self.top}"]
        for name, place in sorted(self._infos.items()):
            listed = next((f for f in (place / "RECORD", place / "METADATA") if f.is_file()), None)
            digest = sha256(listed.read_bytes() if listed else b"").hexdigest()
            lines.append(f"{name}=={self.packages[name]} --hash=sha256:{digest}")
        return "\n".join((*lines, ""))

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of the repository that it imports from, relative to the top."""
        files = (file for site in self.sites
                 for pattern in ("*.pth", "__editable__*_finder.py")
                 for file in site.glob(pattern))  # fmt: skip
        named = (place for file in files for place in _named(file.read_text("utf-8")))
        own = (place.relative_to(self.top) for place in named
               if place.is_relative_to(self.top) and place != self.sites[0])  # fmt: skip
        return tuple(dict.fromkeys(own))

    @property
    def compiled(self) -> bool:
        """Whether the repository has installed compiled modules of its own in it."""
        for place in self._infos.values():
            with suppress(OSError, ValueError):
                url = str(json.loads((place / "direct_url.json").read_text("utf-8"))["url"])
                if Path(unquote(urlsplit(url).path)).is_relative_to(self.top):
                    lines = (place / "RECORD").read_text("utf-8").splitlines()
                    if any(line.partition(",")[0].endswith(_COMPILED) for line in lines):
                        return True
        return False

    def link(self, target: Path, final: Path, base: Path) -> None:
        """Fill a folder, which will be `final`, with links to its packages, for a base Python."""
        major, minor = self._facts["version"]
        name = f"python{major}.{minor}"
        site = target / "lib" / f"{name}{self._facts['suffix']}" / "site-packages"
        programs = target / "bin"
        programs.mkdir(parents=True, exist_ok=True)
        for program in ("python", "python3", name):
            (programs / program).symlink_to(base)
        (target / "pyvenv.cfg").write_text(
            f"home = {base.parent}\ninclude-system-site-packages = false\n", "utf-8"
        )
        used = {*self._infos.values()}

        def hidden(folder: str, names: list[str]) -> list[str]:
            infos = (name for name in names if name.endswith(".dist-info"))
            return [name for name in infos if Path(folder, name) not in used]

        for source in self.sites:
            shutil.copytree(
                source, site, ignore=hidden, copy_function=_link, symlinks=True, dirs_exist_ok=True
            )
        here = os.fsencode(self.executable.parent / "python")
        there = os.fsencode(final / "bin/python")
        for file in self.executable.parent.iterdir():
            if file.is_file() and here in file.open("rb").read(_SHEBANG):
                (programs / file.name).write_bytes(file.read_bytes().replace(here, there))
                (programs / file.name).chmod(0o755)


def _named(text: str) -> list[Path]:
    """List the folders that a file of an editable install names, by lines or by a mapping."""
    mapping = re.search(r"^MAPPING\b[^=]*= (\{.*\})$", text, re.MULTILINE)
    if mapping:
        return [Path(place).parent for place in ast.literal_eval(mapping[1]).values()]
    return [Path(line.strip()) for line in text.splitlines()]


def of_lock(text: str) -> Environment | None:
    """Return the environment that a lock describes; None if it is one to install."""
    found = _MARK.match(text)
    return Environment(Path(found[1]), "", Path(found[2])) if found else None


def find(root: Path, top: Path) -> Environment | None:
    """Find the environment in which a project of a repository runs; None if there is none."""
    for executable, label in _candidates(root, top):
        if os.access(executable, os.X_OK):
            return Environment(executable.absolute(), label, top)
    program = shutil.which("python") or shutil.which("python3")
    return Environment(Path(program), program, top, chosen=False) if program else None


def _candidates(root: Path, top: Path) -> Iterator[tuple[Path, str]]:
    """Yield Pythons with what people call their environments, as their tools would choose."""
    for name in ("VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT"):
        if place := os.environ.get(name):
            folder = root / place
            yield (
                folder / "bin/python",
                os.path.relpath(folder, root) if folder.is_relative_to(top) else str(folder),
            )
    for folder in (root, *(above for above in root.parents if above.is_relative_to(top))):
        for name in _FOLDERS:
            if (folder / name / "pyvenv.cfg").is_file():
                yield folder / name / "bin/python", os.path.relpath(folder / name, root)
    for file, argv in _TOOLS.items():
        if (root / file).is_file() and shutil.which(argv[0]):
            process = subprocess.run(
                argv, capture_output=True, check=False, timeout=_SECONDS, cwd=root, text=True
            )
            yield Path(process.stdout.strip() or "none"), f"{argv[0]}'s environment"
    if place := os.environ.get("CONDA_PREFIX"):
        yield Path(place, "bin/python"), f"conda's {Path(place).name}"


def _link(source: str, target: str) -> str:
    """Link to a file: code by its name, as somebody may edit it, all else at an eighth of the time.

    A library stays a file, of which copies take turns.
    """
    place = Path(target)
    if os.path.lexists(place):
        return target
    try:
        if not target.endswith(".py"):
            place.hardlink_to(source)
            return target
    except OSError:  # on another file system, or another user's
        if ".so" in place.name:
            return str(shutil.copy2(source, place))
    place.symlink_to(source)
    return target
