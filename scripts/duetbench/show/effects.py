"""What one request does, in words: a sentence for the headline, rows of a table. Pure."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from duetbench.core import units
from duetbench.core.model import (
    KEPT,
    TELLING,
    Case,
    EffectKind,
    Effects,
    KeptMemory,
    RequestEffect,
)
from duetbench.core.text import short
from duetbench.project import case_names
from duetbench.show import formats
from duetbench.store.comparison import LIMIT, Comparison

TITLE: Final = "What one request does"

HEAD: Final = ("effect", "base", "head", "difference")

_WORDS: Final[dict[EffectKind, tuple[str, str, str]]] = {
    "sql": ("SQL statements", "sends", "SQL statement"),
    "transaction": ("transaction commands", "sends", "transaction command"),
    "call": ("calls to other hosts", "makes", "call to another host"),
    "connect": ("connections opened", "opens", "connection"),
    "cache": ("cache commands", "sends", "cache command"),
    "read": ("files opened", "opens", "file"),
    "write": ("files written", "writes", "file"),
    "process": ("processes started", "starts", "process"),
    "thread": ("threads started", "starts", "thread"),
    "task": ("tasks created", "creates", "task"),
    "threads left": ("threads left behind", "leaves", "thread behind"),
    "tasks left": ("tasks left behind", "leaves", "task behind"),
    "log": ("log records", "writes", "log record"),
    "exception": ("exceptions raised", "raises", "exception"),
    "import": ("modules imported", "imports", "module"),
    "first import": ("modules imported at first", "imports at first", "module"),
    "collect": ("garbage collections asked for", "asks for", "garbage collection"),
    "peak": ("memory during it", "needs", ""),
    "function": ("function calls", "makes", "function call"),
    "library exception": ("exceptions in libraries", "raises", "exception in libraries"),
    "young collections": ("collections per 1,000", "causes per 1,000", "garbage collection"),
}
"""Of each kind: its row, and the verb and the noun of a sentence."""

ANSWER_ROW: Final = "answer"

_MEANINGS: Final[dict[EffectKind, str]] = {
    "young collections": "How often Python collects garbage during 1,000 requests.",
    "peak": "Memory that one request needs at most, beside what was there before.",
    "function": "How many Python functions one request calls.",
}

_PLURALS: Final = {
    "thread behind": "threads behind", "task behind": "tasks behind", "process": "processes",
    "call to another host": "calls to other hosts",
    "exception in libraries": "exceptions in libraries",
}  # fmt: skip

_COLUMNS: Final = re.compile(r"(?i)(select (?:distinct )?)(?!.*\bselect\b).{13,}?( from )")
_NUMBER: Final = re.compile(r"\d+(\.\d+)?")
_LONGEST: Final = 76  # characters of a statement in a table
_USUAL: Final = 200  # status of an answer
_SHOWN: Final = 3  # details of one kind

_MEMORY: Final = "memory kept after it"

INSIDE: Final = {_WORDS[kind][0] for kind in ("library exception", "young collections", "function")}
"""Titles of rows that explain what was measured, rather than say what a request does."""

LEAKS: Final = "▼ leaks"
SUSPECTS: Final = "▼ may leak"
BETTER: Final = "▲ better"
LEAST: Final = "≠ effects"
"""Marks of what differs exactly."""


def news(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield what differs with its mark, in the order of importance: answers, memory, effects."""
    yield from (("✗ over the limit", text) for text in excess(comparison))
    cases = [*_cases(comparison)]
    for mark, say in (("≠ other answers", _answers), (LEAKS, _leak), (SUSPECTS, _suspicion),
                      (BETTER, _repair), (LEAST, _lead), (LEAST, _fill)):  # fmt: skip
        told = [(name, text) for name, effects in cases if (text := say(effects))]
        if told:
            more = f"; so do {len(told) - 1} other cases" if told[2:] else ""
            more = "; so does another case" if len(told) == 2 else more
            yield mark, f"{told[0][0]} {told[0][1]}{more}"


def _cases(comparison: Comparison) -> Iterator[tuple[str, Effects]]:
    """Yield the cases whose effects were seen, each with the name of what it serves."""
    for case in comparison.cases:
        if case.effects:
            yield case_names.of(case.case).what, case.effects


def excess(comparison: Comparison) -> Iterator[str]:
    """Say where a request of head does more than the project declares, or may do."""
    for name, found in _cases(comparison):
        for kind in _WORDS:
            most, figure = comparison.method.get(f"{LIMIT}{kind}"), found.figure(kind, 1)
            if isinstance(most, int | float) and figure is not None and figure > most:
                what = f"{name} {_WORDS[kind][1]} {_count(kind, figure)}"
                yield f"{what}, more than the limit {_figure(kind, float(most))}"


def _answers(effects: Effects) -> str:
    """Describe the first difference of the answers."""
    if not effects.answers:
        return ""
    first = effects.answers[0]
    path = f"{first.path}: " if first.path else ""
    return f"does different work: {path}{first.what}"


def _leak(effects: Effects, *, loaded: bool = True) -> str:
    kept = effects.kept_head
    return _keeps(kept) if effects.leaks and kept and kept.loaded is loaded else ""


def _suspicion(effects: Effects) -> str:
    """Describe what few requests keep, which no load has shown."""
    return _leak(effects, loaded=False)


def _fill(effects: Effects) -> str:
    """Name the cache that only head fills."""
    base, head = effects.kept_base, effects.kept_head
    fills = head and head.course == "fills" and head.place and not (base and base.course == "fills")
    return f"fills a cache ({head.place})" if head and fills else ""


def _repair(effects: Effects) -> str:
    base, head = effects.kept_base, effects.kept_head
    if not (effects.repairs and base and head):
        return ""
    rest = _size(head) if head.course == "constant" else "nothing"
    return f"keeps {rest}; before {_keeps(base).removeprefix('keeps ')}"


def _lead(effects: Effects) -> str:
    """Describe the most telling effect."""
    kind = next((kind for kind in (*TELLING, *_WORDS) if kind in effects.moved), None)
    if kind is None:
        return ""
    _, verb, noun = _WORDS[kind]
    old, new = effects.totals[kind]
    if old != new:
        return f"{verb} {_count(kind, new)} instead of {_figure(kind, old)}"
    details = [effect for effect in effects.differ if effect.kind == kind]
    return f"{verb} other {_plural(noun)}: {_detail(details[0], details)}"


def meanings() -> dict[str, str]:
    """Explain the rows of what one request does, by their titles."""
    how = "Seen in requests made without a server, one at a time."
    counts = {
        title: f"{_MEANINGS.get(kind) or f'How many {_plural(noun)} one request {verb}.'} {how}"
        for kind, (title, verb, noun) in _WORDS.items()
    }
    kept = "Memory that a request leaves behind for good, with the line that allocates it."
    answer = "What head's answer has otherwise than base's: status, type, or a part of the body."
    return {**counts, _MEMORY: f"{kept} {how}", ANSWER_ROW: f"{answer} {how}"}


def change(metric: str, base: float, head: float) -> str:
    """Describe how an effect moved: `SQL statements 2 → 21`."""
    if metric == KEPT:
        return f"{KEPT} for every request {_bytes(base)} → {_bytes(head)}"
    kind = next(kind for kind in _WORDS if kind == metric)
    return f"{_WORDS[kind][0]} {_figure(kind, base)} → {_figure(kind, head)}"


def first(case: Case, effects: Effects) -> str:
    """Say what differs at first sight, and that this is checked."""
    took = f"{units.significant(effects.seconds, 2)} s"
    check = f"seen in {took}; a second process of each side checks that"
    return f"{case_names.of(case).what} {_lead(effects)} ({check})"


def announce(case: Case, effects: Effects) -> Iterator[str]:
    """Say before any load what differs, or that nothing does: a sentence, and a line per row."""
    said = (say(effects) for say in (_answers, _leak, _suspicion, _repair, _lead, _fill))
    says = [*filter(None, said)]
    name, took = case_names.of(case).what, f"seen in {units.significant(effects.seconds, 2)} s"
    doubtful = [f"  {text}" for text in doubts(effects)]
    if not says:
        yield f"{name} {alike(effects)} ({took}): {same(effects)}"
        yield from doubtful
        return
    # What differs at first sight has been said: what follows is the table of it.
    yield (
        f"{name}, checked ({took})"
        if says == [_lead(effects)]
        else f"{name} {'; '.join(says)} ({took})"
    )
    for title, old, new, text in rows(effects):
        figures = f"{old} → {new}" if old or new else ""
        yield f"  {title:<28}  {figures:<20}  {text}".rstrip()
    yield from doubtful


def describe(case: Case, effects: Effects) -> Iterator[str]:
    """Say what one request does, as `judge.effects.describe` has it: a sentence, and its rows."""
    took = units.significant(effects.seconds, 2)
    yield f"{case_names.of(case).what} answers {_answer(effects)} (seen in {took} s)"
    for title, _, figure, text in rows(effects):
        detail = text.removeprefix("+").replace(" 0 → ", " × ")
        yield f"  {title if figure else '':<28}  {figure:>9}  {detail}".rstrip()
    for kind, spread in effects.unsteady.items():
        yield f"  {_WORDS[kind][0]:<28}  {spread.partition(' in ')[0]}, from request to request"
    if kept := effects.kept_head:
        yield f"  {_MEMORY:<28}  {_size(kept):>9}  {kept.place}".rstrip()
    if peak := effects.totals.get("peak"):
        yield f"  {_WORDS['peak'][0]:<28}  {_figure('peak', peak[1]):>9}"
    yield from (f"  {text}" for text in _blind(effects))


def rows(effects: Effects) -> Iterator[tuple[str, str, str, str]]:
    """Make the rows of what differs: a kind, its totals, and below them what makes it up."""
    kinds = dict.fromkeys(effect.kind for effect in effects.differ)
    for kind in sorted(kinds, key=[*_WORDS].index):
        title, (old, new) = _WORDS[kind][0], effects.totals[kind]
        details = [effect for effect in effects.differ if effect.kind == kind]
        texts = [_detail(effect, details) for effect in details[:_SHOWN]]
        if details[_SHOWN:]:
            texts.append(f"and {len(details) - _SHOWN} more")
        for index, text in enumerate(texts):
            figures = ("", "") if index else (_figure(kind, old), _figure(kind, new))
            yield title, *figures, text
    for answer in effects.answers:
        yield ANSWER_ROW, "", "", f"{answer.path}: {answer.what}" if answer.path else answer.what
    base, head = effects.kept_base, effects.kept_head
    if (effects.leaks or effects.repairs) and base and head:
        place = (head if effects.leaks else base).place
        yield _MEMORY, _size(base), _size(head), place


def beside(effects: Effects, title: str) -> str:
    """Sum up what else a kind does differently beside its first detail: `−1 × another`."""
    others = [effect for effect in effects.differ if _WORDS[effect.kind][0] == title][1:]
    if len(others) == 1:
        return f"{_signed(others[0])} × another"
    if not sum(effect.head - effect.base for effect in others):
        return f"{len(others)} others cancel out"
    return f"{len(others)} others differ, {_signed(*others)} in all"


def _signed(*effects: RequestEffect) -> str:
    """Write how much more often all of these happen: `+20`, `−1`."""
    return f"{sum(effect.head - effect.base for effect in effects):+g}".replace("-", "−")


def alike(*seen: Effects | None) -> str:
    """Say that nothing differs, or that nothing is seen to differ."""
    doubtful = any(text for effects in seen if effects for text in doubts(effects))
    return "shows no difference" if doubtful else "does the same on both sides"


def same(effects: Effects) -> str:
    """Say what both sides do alike: `2 SQL statements, 812 function calls; the answer: 1,204 B`."""
    moved = {effect.kind for effect in effects.differ}
    alike = [
        _count(kind, new)
        for kind, (_, new) in effects.totals.items()
        if kind not in moved and new and kind not in {"young collections", "peak", "first import"}
    ]
    text = ", ".join([f"the answer ({_answer(effects)})"] * (not effects.answers) + alike)
    kept, base = effects.kept_head, effects.kept_base
    if kept and base and {kept.course, base.course} == {"constant"} and not effects.leaks:
        text += f"; both keep memory: head {_keeps(kept)}"
    return text


def _answer(effects: Effects) -> str:
    """Describe head's answers to one path by size, and by status if that is not the usual."""
    status = f"status {effects.status}, " * (effects.status != _USUAL)
    to = f" to {effects.longest:,}" * (effects.longest > effects.length)
    return f"{status}{effects.length:,}{to} bytes"


def doubts(effects: Effects) -> Iterator[str]:
    """Say what was not compared, and what was not seen."""
    for kind, spread in effects.unsteady.items():
        yield f"{_WORDS[kind][0]}: not compared, {_vary(spread)}"
    for name, kept, other in (
        ("head", effects.kept_head, effects.kept_base),
        ("base", effects.kept_base, effects.kept_head),
    ):
        if kept and kept.course == "constant" and other is None:
            yield f"{name} {_keeps(kept)}: there was no time to measure the other side"
    yield from _blind(effects)


def _vary(spread: str) -> str:
    """Say of `5985 to 6514 in head` that the requests of one side differ."""
    numbers = _NUMBER.sub(lambda match: f"{float(match[0]):,g}", spread)
    return f"since they vary within a side ({numbers})"


def _blind(effects: Effects) -> Iterator[str]:
    """Say what was not measured, and what is never seen."""
    if effects.unmeasured:
        yield f"memory: not measured, {effects.unmeasured}"
    if effects.unseen:
        yield f"not seen: {', '.join(effects.unseen)}"


def _detail(effect: RequestEffect, others: Sequence[RequestEffect] = ()) -> str:
    """Describe an effect: `+19 × SELECT … FROM book WHERE author_id = ?   authors, main.py:41`."""
    if effect.kind in {"function", "peak", "young collections"}:
        size = formats.percent(effect.head / effect.base) if effect.base else ""
        return "   ".join(filter(None, (size, effect.text, effect.place)))
    times = _signed(effect)
    text = _text(effect, [other.text for other in others if other.text != effect.text])
    words = f"{times} × {text}" if text else times
    return f"{words}   {effect.place}" if effect.place else words


def _text(effect: RequestEffect, others: Sequence[str]) -> str:
    """Shorten what an effect is about, so that it still differs from others."""

    def brief(text: str) -> str:
        text = _COLUMNS.sub(r"\1…\2", text, count=1) if effect.kind == "sql" else text
        return short(text, _LONGEST)

    text = effect.text
    alike = [other for other in others if brief(other) == brief(text)]
    if not alike:
        return brief(text)
    if all(short(other, _LONGEST) != short(text, _LONGEST) for other in alike):
        return short(text, _LONGEST)
    letters = enumerate(zip(text, *alike, strict=False))
    shared = next((at for at, some in letters if len({*some}) > 1), len(text))
    return short(f"… {text[text.rfind(' ', 0, shared) + 1 :]}", _LONGEST)


def _count(kind: EffectKind, number: float) -> str:
    noun = _WORDS[kind][2]
    if not noun:
        return _figure(kind, number)
    return f"{_figure(kind, number)} {noun if number == 1 else _plural(noun)}"


def _plural(noun: str) -> str:
    return _PLURALS.get(noun, f"{noun}s")


def _figure(kind: EffectKind, number: float) -> str:
    if kind == "peak":
        return f"{units.significant(number / 1e3)} kB"
    return f"{round(number, 2):,g}" if number < 100_000 else f"{number:,.0f}"


def _size(kept: KeptMemory) -> str:
    return _bytes(kept.bytes if kept.course == "constant" else 0.0)


def _bytes(number: float) -> str:
    return f"{units.significant(number / 1e3, 2)} kB" if number else "0 kB"


def _keeps(kept: KeptMemory) -> str:
    what = f"keeps {_size(kept)} for each of the first {kept.requests:,} requests"
    return what + f" ({kept.place})" * bool(kept.place)
