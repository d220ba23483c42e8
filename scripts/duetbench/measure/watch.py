"""What does a request load? A server says it itself, after verification, and is measured by nobody.

Code that is imported where it is installed, late, or by a name that only runs at a request is in no
declaration. It is in the process that has answered.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from duetbench.core.errors import LaunchError
from duetbench.core.model import Case
from duetbench.measure.entry import duetbench_entry as entry
from duetbench.measure.server import Serving
from duetbench.measure.testbed import Testbed


def files(cases: Sequence[Case], testbed: Testbed, log: Path) -> tuple[frozenset[Path], Path]:
    """Give the files that a process uses that has answered each of these cases, and its folder.

    The cases are served by one command; one worker does. LaunchError: they are not served.
    """
    alone = [
        case.model_copy(update={"workers": 1, "env": {**case.env, entry.WATCHED: "1"}})
        for case in cases
    ]
    serving = Serving(alone[0], testbed, log)
    try:
        serving.start()
        serving.await_ready()
        serving.meet()
        for case in alone:
            serving.take(case)
            serving.verify(repeats=1)
        workers = serving.identify()
    except LaunchError:
        with suppress(LaunchError):  # of two failures the first explains the second
            serving.kill()
        raise
    except BaseException:
        serving.abandon()
        raise
    serving.kill()
    found = {Path(name) for worker in workers for name in worker.files}
    return frozenset(found), serving.workspace.folder
