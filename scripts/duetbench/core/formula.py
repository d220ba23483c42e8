"""Arithmetic in declarations: `min(c, slots) / floor` and the like, and nothing else.

Declarations are expanded with it (floors, slots, loads), and launches judged (their ceiling).
"""

import math
from collections.abc import Mapping
from typing import Final

from simpleeval import InvalidExpression, SimpleEval

from duetbench.core.errors import DuetbenchError

NO_UNIT: Final = 1e-9
"""A unit in s by which no ceiling is limited: what is left of a formula is what was declared."""

CEILING_NAMES: Final = ("c", "slots", "floor", "unit", "cores", "rate", "workers", "threads")
"""What a ceiling may be a formula over; `slots`, `rate` and `threads` are inf where there is none.

c: connections. slots: requests in service at once. floor: service floor, s. unit: fastest single
request, s. cores: cores of the server. rate: offered requests/s.
"""

_FUNCTIONS: Final = {"min": min, "max": max}


class FormulaError(DuetbenchError):
    """A formula cannot be worked out; `reason` says why, in half a sentence."""

    def __init__(self, formula: str, names: Mapping[str, float], reason: str) -> None:
        self.reason = reason
        self.allowed = f"arithmetic over {', '.join([*names, 'inf'])}, min() and max()"
        super().__init__(f"formula {formula!r}: {reason}; allowed: {self.allowed}")


def evaluate(formula: str, values: Mapping[str, float]) -> float:
    """Work out a formula over `values`, with `min`, `max` and `inf`; FormulaError says why not."""
    evaluator = SimpleEval(functions=_FUNCTIONS, names={**values, "inf": math.inf})
    try:
        result = evaluator.eval(formula)
    except ZeroDivisionError as error:
        raise FormulaError(formula, values, "divides by zero") from error
    except (InvalidExpression, SyntaxError, TypeError, ValueError, OverflowError) as error:
        raise FormulaError(formula, values, str(error).partition("\n")[0]) from error
    if isinstance(result, bool) or not isinstance(result, int | float) or math.isnan(result):
        raise FormulaError(formula, values, f"gives {result!r}, which is no number")
    return float(result)
