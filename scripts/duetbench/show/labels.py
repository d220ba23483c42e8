"""What the labels of reports mean: verdicts, columns, facts and sections, by group. Pure."""

import re
from typing import Final

from duetbench.core.errors import FlagName
from duetbench.core.metrics import METRICS
from duetbench.show import effects, formats

_MARK: Final = re.compile(r"^(?:[▼▲=?✕✗≠]\s*)+")
_SIZE: Final = re.compile(r"^below [\d.]+ %$")

_WORSE: Final = "Head is surely worse than base in this metric."
_BETTER: Final = "Head is surely better than base in this metric."
_MORE: Final = "Head does this more often than base, surely. It is neither good nor bad by itself."
_LESS: Final = "Head does this less often than base, surely. It is neither good nor bad by itself."
_OPEN: Final = (
    "Measured, and neither a change nor its absence is shown. More time may decide it: --budget."
)
_COUNTED: Final = (
    "Instructions that the processor executes for one request, counted without server, socket and "
    "waiting. Counts repeat almost exactly."
)

_VERDICTS: Final = {
    "slower": _WORSE,
    "worse": _WORSE,
    "larger": _WORSE,
    "faster": _BETTER,
    "better": _BETTER,
    "smaller": _BETTER,
    "more": _MORE,
    "fewer": _LESS,
    "less": _LESS,
    "no change": "A change that matters is excluded: the whole interval is near zero.",
    "below": "No change: the whole interval of the change is below this size, in both directions.",
    "inconclusive": _OPEN,
    "not decided": _OPEN,
    "not judged": "Too few usable samples for a first look. A larger --budget gives more.",
    "not decided, and not waited for": "Not decided by the duets of others; it gets no more.",
    "not comparable": "A side failed, or lacks the metric: there is no change to give.",
    "a trade": "One metric of a case got better and another one worse, both by a size to act on.",
    "leaks": "A side keeps memory for every request, so it grows for as long as it runs.",
    "other answers": "Head answers the same request otherwise, so its speed is of other work.",
    "effects": "One request does something else than before: statements, calls, files, memory.",
    "over the limit": "A request does more of something than the project declares as its limit.",
}

_COLUMNS: Final = {
    "before → after": "Base's mean figure, and that times the change.",
    "base → head": "Base's mean figure, and that times the change.",
    "change": "Head over base: how much more or less, or how many times as much.",
    "95 % interval": "Where the true change lies: 95 of 100 such intervals contain it.",
    "95 %": "The 95 % interval of the figure.",
    "ours": "The figure of this run.",
    "samples": "Duets behind the row, or turns: each is one measurement of both sides.",
    "why": "Why the row is not decided.",
    "effect": "What one request does.",
    "difference": "What head does more or less often, and which function does it.",
    "function": "The function whose own work, and that of what it calls, moved.",
    "where": "File and line of the function.",
    "package": "The package that has it, with its versions if they differ.",
    "called by": "The function that calls it most.",
    "share": "How much of the whole change a function explains.",
    "of all": "How much a function moved, as a share of all that base executes.",
    "entries": "How often one request enters the function, on base → head.",
    "state": "Whether the case was measured, and its flags.",
    "note": "Flags of the duet, or why it is not used.",
}

_FACTS: Final = {
    "kind": "Two choices are compared, such as two servers, rather than a change.",
    "interpreters": "The versions of Python that ran.",
    "allocators": "Which functions gave memory to Python; they differ between the sides.",
    "not covered": "Cases whose requests do not enter any function that differs.",
    "duets": "How many duets are used, and how many are not.",
    "turns": "Launches of each side alone, one right after the other, in place of duets.",
    "by turns": "Metrics that were measured with each side alone, and why.",
    "noise": "Other programs took time on this machine (host_noise). In a duet they take it from "
    "both sides alike, so its ratio is used.",
    "time": "What the comparison took, and its budget.",
    "machine": "Where it was measured.",
}

_SECTIONS: Final = {
    "what one request does": "What differs, seen in requests made without a server, one at a time.",
    "event": "A change of all cases together, tested as one.",
    "instructions per request": _COUNTED,
    "instructions per request, without a server": _COUNTED,
    "instructions in process": "Instructions of a benchmark that runs without a server.",
    "time in process": "CPU time of a benchmark that runs without a server.",
    "whole request, at least": "The least change of the CPU of a request that the counts show.",
    "memory kept for every request": "How much each side keeps, from a load of it alone.",
    "garbage collector": effects.meanings()["collections per 1,000"],
    "packages that differ": "Packages with other versions on the two sides.",
    "why these were judged": "What of the change can affect each case.",
    "validity flags": "What was wrong or unusual in duets, by name.",
    "next": "What to do about what is not decided.",
    "notes": "What a reader of the figures should know.",
    "reproduce": "The command that repeats the comparison.",
}


def groups() -> dict[str, dict[str, str]]:
    """Return what the words of reports mean, group by group, each word once."""
    flags = {flag.value: f"{flag.meaning}." for flag in FlagName}
    judged = (row for row in METRICS.values() if row.rank is not None or row.situation)
    return {
        "verdicts": _VERDICTS,
        "figures": {formats.noun(row.name): row.meaning for row in judged},
        "what one request does": effects.meanings(),
        "columns": _COLUMNS,
        "facts": _FACTS,
        "sections": _SECTIONS,
        "flags": flags,
    }


def key(label: str) -> str:
    """Return the word that a printed label stands for: its mark and its size left out."""
    text = _SIZE.sub("below", _MARK.sub("", label.strip()))
    return text.removeprefix("probably ").lower()
