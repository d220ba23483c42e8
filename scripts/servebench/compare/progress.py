"""What a person sees while a comparison goes on."""

from __future__ import annotations

from servebench.core.metrics import BRIEF, METRICS
from servebench.core.model import Case
from servebench.host import progress
from servebench.host.progress import duration
from servebench.record.comparison import Duet


class Reporter(progress.Progress):
    """One line per duet; on a terminal a bar with the time to the next decisions below them."""

    _stage = ""

    def begin(self, cases: int, seconds: float, budget: float | None) -> None:
        """The comparison starts: deciding about so many cases takes `seconds` at least."""
        limit = "" if budget is None else f", at most {duration(budget)}"
        sentence = f"{_cases(cases)}; a first answer takes about {duration(seconds)}{limit}"
        self.start(sentence, seconds, until="to the next decisions")

    def stage(self, name: str, cases: int) -> None:
        """A stage with so many cases starts."""
        self._stage = name
        self.say(f"{name}: {_cases(cases)}")

    def playing(self, case: Case, done: int, remaining: float) -> None:
        """A duet or launch starts; the stage's next decisions take `remaining` s about."""
        self.work(f"{self._stage} {case.id}", done, remaining)

    def played(self, duet: Duet) -> None:
        """A duet ended."""
        self.say(f"[{duet.order + 1}] {duet.stage} {duet.case}  {outcome(duet)}")


def outcome(duet: Duet) -> str:
    """What a duet gave, in a line: changes of head against base, or why it does not count."""
    failing = [
        f"{side}: {flag.name}: {flag.detail}"
        for side, flags in (("base", duet.flags_base), ("head", duet.flags_head))
        for flag in flags
        if flag.severity == "fail"
    ]
    if failing:
        return "void: " + "; ".join(failing)
    changes = [
        f"{METRICS[name].title} {duet.head[name] / duet.base[name] - 1:+.1%}"
        for name in BRIEF
        if duet.base.get(name) and duet.head.get(name)
    ]
    warnings = sorted({flag.name for flag in (*duet.flags_base, *duet.flags_head)})
    shown = ", ".join(changes) + (f"  [{', '.join(warnings)}]" if warnings else "")
    return shown if duet.usable else f"not used: {shown}"


def _cases(number: int) -> str:
    return f"{number} {'case' if number == 1 else 'cases'}"
