"""The releases behind a confirmed change, by the tool's search between its two locks."""

import glob

from duetbench.core.change import Cause
from duetbench.judge import causes
from duetbench.judge.duet_loop import Reporter
from observatory.matrix.checkout import Checkout
from observatory.store.change import Change
from observatory.trend.confirm import find_locks


def search(project: Checkout, record: Change, seconds: float, reporter: Reporter) -> Cause:
    """Search for the releases behind a change.

    Raises UsageError if its case is no longer declared, or as `find_locks` and `search_locks`.
    """
    series, locks = record.series, find_locks(project, record, reporter)
    case, stack = glob.escape(series.case), record.base.stack
    return causes.search_locks(project, stack, locks, case, seconds, reporter, series.metric)
