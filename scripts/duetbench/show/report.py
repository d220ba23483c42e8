"""A comparison as a report in Markdown."""

import textwrap
from itertools import accumulate
from typing import Final

from duetbench.core.text import visible
from duetbench.show.markdown import WORDS, escape, facts, grid, row
from duetbench.show.view import Block, make_view
from duetbench.store.comparison import Comparison

LIMIT: Final = 60_000
"""Characters of a comparison's report. GitHub refuses comments above 65,536."""

_ROOM: Final = 400  # for what is said of rows and blocks that were left out
_FOLD_END: Final = "\n</details>\n\n"


def comparison(found: Comparison, *, limit: int = LIMIT, end: str = WORDS) -> str:
    """A comparison as a comment on a pull request, bounded by construction.

    A block that no longer fits loses its last rows, and says how many; one of which nothing fits is
    named at the end. The headline and the rows that got worse are there whatever the size.
    """
    view = make_view(found)
    text, lost = f"## {escape(view.headline)}\n\n", []
    for block in view.blocks:
        opening, lines, closing = _block(block)
        room = limit - len(text) - _ROOM - len(opening) - len(closing)
        kept = sum(size <= room for size in accumulate(map(len, lines)))
        if kept:
            left = len(lines) - kept
            more = f"\n… and {left} more, in the comparison's JSON.\n" if left else ""
            text += opening + "".join(lines[:kept]) + more + closing
        else:
            lost.append(block.name)
    if lost:
        text += f"Left out, for lack of room: {', '.join(dict.fromkeys(lost))}.\n\n"
    return text + end


def _block(block: Block) -> tuple[str, list[str], str]:
    """What stands before its lines, the lines, and what stands after them."""
    opening = f"### {block.under}\n\n" if block.under else ""
    if block.folded:
        opening += f"<details><summary>{block.title}</summary>\n\n"
    elif block.title:
        opening += f"### {block.title}\n\n"
    closing = _FOLD_END if block.folded else "\n"
    if block.grid is not None:
        opening += "".join(f"{escape(line)}\n\n" for _, line in block.lines)
        opening += grid(block.grid.head, block.grid.align, []) + "\n"
        return opening, [f"{row(cells)}\n" for cells in block.grid.rows], closing
    if block.kind == "facts":
        return opening, [f"{facts(block.lines)}\n"], closing
    if block.kind == "legend":
        meanings = (f"**{name}**: {escape(meaning)}" for name, meaning in block.lines)
        return opening, [f"<sub>{'. '.join(meanings)}.</sub>\n"], closing
    if block.kind == "news":
        return opening, [f"> {escape(line)}\n\n" for _, line in block.lines], ""
    if block.kind == "commands":
        # Indented, not fenced: no text can close an indented block.
        texts = (visible(f"# {what}\n{command}\n") for what, command in block.lines)
        return opening, [textwrap.indent(one, "    ") for one in texts], closing
    named = (f"{escape(name)}: " if name else "" for name, _ in block.lines)
    lines = (escape(line) for _, line in block.lines)
    return opening, [f"- {n}{line}\n" for n, line in zip(named, lines, strict=True)], closing
