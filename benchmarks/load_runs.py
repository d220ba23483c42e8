"""The load runs on asv's pages: a stub for every figure of every case.

`servebench run` measures them with real servers and a load generator, and `servebench asv export`
puts the figures among asv's results. asv has nothing to run here, but forgets every benchmark that
it does not discover; so it discovers these and skips them.

The stubs come from `load_cases.json`, which `servebench asv stubs` makes from the declarations in
`apps/*/experiment.toml`.
"""

import json
from pathlib import Path

_SOURCE = """\
# {pretty_name}
#
# Measured by `servebench run --profile nightly` with a real server under load, one sample per
# launch, and put among asv's results by `servebench asv export`.
"""


def _stub(method, case):
    def skipped(_self):
        from asv_runner.benchmarks.mark import SkipNotImplemented  # noqa: PLC0415 - not to discover

        raise SkipNotImplemented("measured by `servebench run`, see `servebench asv export`")

    # asv shows the source with the class that it finds in here.
    skipped.__name__ = skipped.__qualname__ = method
    skipped.version = case["version"]
    skipped.unit = case["unit"]
    skipped.pretty_name = case["pretty_name"]
    skipped.pretty_source = _SOURCE.format_map(case)
    return skipped


def _classes():
    """One class per experiment, with a method per figure of a case."""
    file = Path(__file__).with_name("load_cases.json")
    members = {}
    for case in json.loads(file.read_text("utf-8")):
        _, experiment, method = case["name"].split(".")
        members.setdefault(experiment, {})[method] = _stub(method, case)
    return {name: type(name, (), methods) for name, methods in members.items()}


globals().update(_classes())
