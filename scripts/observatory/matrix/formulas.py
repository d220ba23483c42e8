"""Formulas of declarations: arithmetic such as `40 * workers`, for floors, slots and loads."""

import math
from collections.abc import Mapping
from functools import lru_cache

from simpleeval import InvalidExpression, SimpleEval

from duetbench.core.errors import DuetbenchError


class FormulaError(DuetbenchError):
    """A formula cannot be evaluated; `reason` says why, in half a sentence."""

    def __init__(self, formula: str, names: Mapping[str, float], reason: str) -> None:
        self.reason = reason
        self.allowed = f"arithmetic over {', '.join([*names, 'inf'])}, min() and max()"
        super().__init__(f"formula {formula!r}: {reason}; allowed: {self.allowed}")


def evaluate(formula: str, values: Mapping[str, float]) -> float:
    """Evaluate a formula over `values`, with `min`, `max` and `inf`; raises FormulaError."""
    return _evaluate(formula, tuple(values.items()))


@lru_cache(maxsize=4096)  # both sides of a comparison declare nearly the same cases
def _evaluate(formula: str, known: tuple[tuple[str, float], ...]) -> float:
    values = dict(known)
    evaluator = SimpleEval(functions={"min": min, "max": max}, names={**values, "inf": math.inf})
    try:
        result = evaluator.eval(formula)
    except ZeroDivisionError as error:
        raise FormulaError(formula, values, "divides by zero") from error
    except (InvalidExpression, SyntaxError, TypeError, ValueError, OverflowError) as error:
        raise FormulaError(formula, values, str(error).partition("\n")[0]) from error
    if isinstance(result, bool) or not isinstance(result, int | float) or math.isnan(result):
        raise FormulaError(formula, values, f"gives {result!r}, which is not a number")
    return float(result)
