"""Check that the other figures are what their labels say: interpreter, GIL, and locked packages.

Versions are recorded as figures, so a graph shows which version came with which commit. They are
also checked: these benchmarks fail in an environment that does not match the commit's lock.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import os
import platform
import re
import sys
import sysconfig
import tomllib

from ._suite import checkout, skip, stack, tree

_INDIRECT = ("anyio", "httptools", "pydantic-core", "starlette", "werkzeug")
"""Indirect packages of the stacks that affect the figures."""


class EnvironmentMismatchError(Exception):
    """The process runs something else than the labels of its figures say."""


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _of_interest() -> list[str]:
    """Python, the packages in the stacks' dependency groups, and `_INDIRECT`."""
    with (tree() / "apps" / "pyproject.toml").open("rb") as file:
        groups = tomllib.load(file)["dependency-groups"]
    needs = (need for group in groups.values() for need in group if isinstance(need, str))
    direct = {_normalised(re.split(r"[^\w.-]", need, maxsplit=1)[0]) for need in needs}
    return ["python", *sorted(direct.union(_INDIRECT))]


def as_figure(version: str) -> float:
    """Write a version as a number that grows with it: 2.14.3 is 2.014003.

    A fourth part and pre-release marks are left out.

    Raises:
        ValueError: It does not begin with a number, or a part after the first has four digits.
    """
    match = re.match(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?", version)
    if match is None:
        raise ValueError(f"expected a version such as 2.14.3, found {version!r}")
    major, minor, patch = (int(part or 0) for part in match.groups())
    if max(minor, patch) >= 1000:
        raise ValueError(f"expected parts below 1000, found {version!r}")
    return round(major + minor / 1000 + patch / 1_000_000, 6)


def _locked() -> dict[str, tuple[str, bool]]:
    """Name → version, and whether some platforms lack it, from the commit's lock."""
    text = (checkout() / "apps" / "stacks" / f"{stack()}.txt").read_text("utf-8")
    lines = text.replace("\\\n", " ").splitlines()
    pinned = (re.match(r"([\w.-]+)==([^\s;]+)\s*(;?)", line) for line in lines)
    return {_normalised(pin[1]): (pin[2], bool(pin[3])) for pin in pinned if pin}


@functools.cache
def _installed() -> dict[str, str]:
    """Name → version of every package of this process, which must be as locked.

    Raises:
        EnvironmentMismatchError: A package is missing, is another version, or is not in the lock.
    """
    installed = {_normalised(d.name): d.version for d in importlib.metadata.distributions()}
    locked = _locked()
    wrong = [
        f"{name} is {installed.get(name, 'absent')} instead of {version}"
        for name, (version, conditional) in locked.items()
        if installed.get(name) != version and not (conditional and name not in installed)
    ]
    extra = installed.keys() - locked.keys()
    wrong += [f"{name} {installed[name]} is not in it" for name in extra]
    if wrong:
        raise EnvironmentMismatchError(
            f"expected the packages of {checkout()}/apps/stacks/{stack()}.txt, found others: "
            f"{'; '.join(sorted(wrong))}. Remove the environment {sys.prefix}; it is made again"
        )
    return installed


def _import_all() -> None:
    """Import this stack's packages of interest: an extension module can switch the GIL on."""
    installed = _installed()
    for module, owners in importlib.metadata.packages_distributions().items():
        ours = {_normalised(owner) for owner in owners} & installed.keys()
        if ours.intersection(_of_interest()) and not module.startswith("_"):
            importlib.import_module(module)


class Interpreter:
    """Does the process run the interpreter that its figures are filed under?"""

    unit = "1: with the GIL, 0: without"

    def track_gil_state(self) -> int:
        """Whether the GIL is on when all packages of interest are loaded."""
        _import_all()
        version = platform.python_version()
        built_without = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
        on = sys._is_gil_enabled()
        series = ".".join(version.split(".")[:2])
        python = series + ("t" if built_without else "")
        expected = os.environ.get("DUETBENCH_PYTHON", python)
        if python != expected:
            raise EnvironmentMismatchError(
                f"expected Python {expected}, found {python} ({version})"
            )
        if on == built_without:
            raise EnvironmentMismatchError(
                f"expected Python {expected} with the GIL {'off' if built_without else 'on'}, "
                f"found it {'on' if on else 'off'}: PYTHON_GIL, -X gil or an "
                "extension module did that"
            )
        return int(on)


class Packages:
    """Does the process have the packages of the commit's lock, and which versions are they?"""

    unit = "version"
    params = _of_interest()
    param_names = ("package",)

    def track_version(self, package: str) -> float:
        """The version as a number: 2.14.3 is 2.014003."""
        installed = _installed()
        if package == "python":
            return as_figure(platform.python_version())
        if package not in installed:
            skip(f"{package} is no part of stack {stack()}")
        return as_figure(installed[package])
