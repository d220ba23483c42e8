"""Names of functions that are the same on both sides, wherever environments and copies lie."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import distributions
from pathlib import Path
from typing import Final, NamedTuple

from duetbench.measure.instructions.profiling import Code
from duetbench.store.attribution import APPLICATION, PYTHON

DRIVER: Final = "duetbench"
"""Stands for a package where code is that which sends requests inside the process."""

_FROZEN: Final = "<frozen "


class Name(NamedTuple):
    """A function: `store.attribution.Function` without its line."""

    name: str
    file: str
    package: str


def owners(packages: Path) -> dict[str, str]:
    """Read which distribution each file of an environment belongs to."""
    return {
        str(file): dist.name
        for dist in distributions(path=[str(packages)])
        for file in dist.files or ()
    }


@dataclass(frozen=True, slots=True)
class Naming:
    """Names the functions of one side.

    Attributes:
        packages: The folder of its packages.
        standard: That of the standard library.
        application: The folder of its application.
        driver: Folders of what sends requests.
        owners: The distribution of each file in `packages`.
    """

    packages: Path
    standard: Path
    application: Path
    driver: tuple[Path, ...]
    owners: Mapping[str, str] = field(default_factory=dict)

    def of(self, code: Code) -> Name:
        """Name a function, or an extension module, which is one for all interpreters."""
        path = Path(code.file)
        if code.file.startswith(_FROZEN):
            module = code.file.removeprefix(_FROZEN).removesuffix(">")
            return Name(code.name, f"{module.replace('.', '/')}.py", PYTHON)
        if path.is_relative_to(self.packages):
            file = path.relative_to(self.packages).as_posix()
            package = self.owners.get(file, file.partition("/")[0].removesuffix(".py"))
            if path.suffix == ".so":
                file = f"{file[: -len(path.name)]}{path.name.partition('.')[0]}.so"
            return Name(code.name, file, package)
        places = [(self.standard, PYTHON), (self.application, APPLICATION)]
        for folder, package in (*places, *((folder.parent, DRIVER) for folder in self.driver)):
            if path.is_relative_to(folder):
                return Name(code.name, path.relative_to(folder).as_posix(), package)
        return Name(code.name, path.name, PYTHON if code.file.startswith("<") else APPLICATION)
