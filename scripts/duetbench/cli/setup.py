"""`duetbench setup` and `doctor`: install what measuring needs, and say what this machine has."""

import shutil
from collections.abc import Mapping
from typing import Final

import psutil
from typer import Exit

from duetbench.app import tools
from duetbench.app.target import Configuration, configuration
from duetbench.cli.options import JsonOption
from duetbench.core import units
from duetbench.core.errors import SetupError
from duetbench.host import command, machine, paths
from duetbench.host.console import Console, Narrator, print_json

_VALGRIND: Final = "valgrind"
_NO_VALGRIND: Final = (
    "duetbench counts instructions with valgrind and a C compiler: `apt-get install valgrind gcc "
    "libc6-dev`"
)


def setup_command() -> None:
    """Install the load generator; a second run only checks it.

    $ duetbench setup
    $ duetbench setup && duetbench doctor

    Interpreters and environments are made when an application is measured. Every lock has its own,
    and the cache keeps those of older locks, so that going back costs nothing. What nothing has
    used for a month is removed when a new one is made.
    """
    narrator = Narrator(Console())
    report(set_up(configuration(paths.project_root()), narrator), narrator)


def report(parts: Mapping[str, bool], narrator: Narrator) -> None:
    """Say which parts are new."""
    for label, is_new in parts.items():
        narrator.say(f"{'installed' if is_new else 'ready and checked'}: {label}")
    narrator.say(f"the cache is {paths.cache_dir()}")


def set_up(
    configured: Configuration, narrator: Narrator, build: tools.Build | None = None
) -> dict[str, bool]:
    """Install what is missing and check the rest; return each part, and whether it is new.

    `build` makes the load generator where it cannot be downloaded.

    It can be interrupted and repeated at any time, and uses the network only for missing parts.

    Raises SetupError if a part cannot be installed; earlier parts are kept.
    """
    if not shutil.which("git"):
        raise SetupError(
            "git is needed to say what is measured, but is not on PATH: install it (Debian: "
            "apt-get install git)"
        )
    oha_now = tools.ensure_oha(configured.oha, narrator, build)
    origin = tools.oha_origin(tools.find_oha(configured.oha))
    parts = {f"oha {configured.oha.version} ({origin})": oha_now}
    if not shutil.which(_VALGRIND):
        narrator.say(f"not installed: {_VALGRIND}; {_NO_VALGRIND}")
    return parts


def doctor_command(as_json: JsonOption = False) -> None:
    """Say whether this machine is ready to measure, what is missing, and what affects figures.

    $ duetbench doctor
    $ duetbench doctor --json

    Exit code 0: everything needed is here. 1: something is missing or wrong, with advice.
    """
    first, spec = machine.core_times(), configuration(paths.project_root()).oha
    try:
        program, fault = tools.find_oha(spec), tools.oha_fault(spec)
        origin = f"{tools.oha_origin(program)}; {program}"
        oha = f"wrong; {fault}" if fault else f"{spec.version}, {origin}"
    except SetupError as error:
        fault = oha = str(error)
    busy = psutil.cpu_percent(1.0)  # after the check, which takes core time itself
    last, fingerprint = machine.core_times(), machine.fingerprint()
    cores = fingerprint.server_cores, fingerprint.client_cores
    server, client = (", ".join(map(str, own)) for own in cores)
    facts = {
        "oha": oha,
        _VALGRIND: shutil.which(_VALGRIND) or f"not required; {_NO_VALGRIND}",
        "CPU": fingerprint.cpu,
        "cores": f"{fingerprint.cores}: server {server}, generator {client}",
        "pinning": "each on its own cores"
        if fingerprint.pinned
        else "impossible: one core for both",
        "memory": units.size(fingerprint.memory),
        "system": f"{fingerprint.os}, kernel {fingerprint.kernel}",
        "hypervisor": fingerprint.virtual or "none seen",
        "frequency governor": fingerprint.governor or "none shown",
        "cache": f"{paths.cache_dir()} ({command.free_gb(paths.cache_dir()):.1f} GB free)",
        "steal": f"{units.share(last.since(first).steal_share)} now, "
        f"{units.share(last.steal_share)} since boot",
        "load": f"{busy:.0f} % of the core time is used now",
    }
    if as_json:
        shown = fingerprint.model_dump(mode="json")
        print_json({"ready": not fault, "facts": facts, "machine": shown})
    else:
        not_ready = "Not ready to measure: oha; run `duetbench setup`"
        Console().say(not_ready if fault else "Ready to measure")
        for name, text in facts.items():
            Console().say(f"  {name}: {text}")
    if fault:
        raise Exit(1)
