"""`duetbench doctor`: what this machine has, and how that affects figures."""

import psutil

from duetbench.app import tools
from duetbench.app.target import configuration
from duetbench.cli.options import JsonOption
from duetbench.core import units
from duetbench.counts import counted
from duetbench.host import command, machine, paths
from duetbench.host.console import Console, print_json
from duetbench.report.run import describe_machine


def doctor_command(*, as_json: JsonOption = False) -> int:
    """Say whether this machine is ready to measure, what is missing, and what affects figures.

    $ duetbench doctor
    $ duetbench doctor --json

    Exit code 0: everything needed is here. 1: something is missing or wrong, with advice.
    """
    first, spec = machine.core_times(), configuration(paths.project_root()).oha
    fault = tools.oha_fault(spec)
    advice = f"{fault}: run `duetbench setup`" if fault else ""
    busy = psutil.cpu_percent(1.0)  # after the check, which takes core time itself
    last, fingerprint = machine.core_times(), machine.fingerprint()
    cores = fingerprint.server_cores, fingerprint.client_cores
    server, client = (", ".join(map(str, own)) for own in cores)
    facts = {
        "load generator": f"oha {spec.version}: {advice or tools.find_oha(spec)}",
        "counts": counted.missing() or "Valgrind and a C compiler are here",
        "machine": describe_machine(fingerprint),
        "cores": f"{fingerprint.cores}: server {server}, generator {client}",
        "pinning": "each on its own" if fingerprint.pinned else "impossible: one core for both",
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
    return 1 if fault else 0
