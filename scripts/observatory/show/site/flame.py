"""The differential flame graph: the newer side's tree of calls, coloured by what changed.

After Gregg (The Flame Graph, CACM 2016;59(6):48): a frame is a function below its caller. Its width
is what the function and all its callees execute; frames of one caller are ordered by name. Both
sides are aligned before drawing, so each frame is compared with itself. Pure.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from duetbench.core import units
from duetbench.show.change import of_request, place
from duetbench.show.html.charts import Caption
from duetbench.store.attribution import Attribution, Function, Node
from observatory.show.site.words import drawing

GREY: Final = 0.002
"""Share of all instructions below which a function of the tree counts as unmoved."""

LEAST: Final = 0.002
"""Width of the narrowest frame drawn, as a share of the whole."""
FRAMES: Final = 500
"""Most frames drawn: readers cannot distinguish more, and they make a page slow."""
STILL: Final = 0.01
"""Width of the narrowest frame that did not move: those below would only be needles."""

_HEIGHT: Final = 19  # px of a frame, with the gap to the next
_NAMED: Final = 0.045  # share of the width that a readable part of a name needs
_SIGNS: Final = {"more": "+ ", "less": "− "}
_LEGEND: Final = {
    "more": "+ executes more itself",
    "less": "− executes less itself",
    "more-below": "more in what it calls",
    "less-below": "less in what it calls",
    "still": "moved by less than 0.2 % of a request",
}


@dataclass(frozen=True, slots=True)
class Frame:
    """A node's place: left edge and width as shares of the whole, and its depth from 0."""

    node: Node
    depth: int
    left: float
    width: float


def flame(about: Caption, record: Attribution, address: Callable[[Function], str]) -> Markup:
    """Draw an attribution's tree; `address` returns a moved function's link, or an empty string.

    Places are per cent of the width: one drawing fits pages of every size.
    """
    all_frames = frames(record.tree)
    wide = [
        frame
        for frame in all_frames
        if frame.width >= (STILL if tone(record, frame.node) == "still" else LEAST)
    ]
    wide = sorted(wide, key=lambda frame: -frame.width)[:FRAMES]
    visible = sorted(wide, key=lambda frame: (frame.depth, frame.left))
    tones = {tone(record, frame.node) for frame in all_frames if frame.width > 0}
    return drawing(
        "flame.html.j2",
        about=about,
        height=(1 + max(frame.depth for frame in visible)) * _HEIGHT,
        frames=[_frame(record, frame, address) for frame in visible],
        legend=[(kind, label) for kind, label in _LEGEND.items() if kind in tones],
    )


def frames(tree: Node) -> tuple[Frame, ...]:
    """Return all nodes with their places: callers first, and callees in the order of names.

    Nodes of only the older side have no width. Callees never exceed their caller's width, although
    medians of several counts may add up to a little more.
    """
    whole = Frame(tree, 0, 0.0, 1.0)
    result, queue = [whole], [whole]
    while queue:
        caller = queue.pop()
        total = max(sum(node.head for node in caller.node.below), caller.node.head)
        left = caller.left
        for node in sorted(caller.node.below, key=_order):
            width = caller.width * node.head / total if total else 0.0
            frame = Frame(node, caller.depth + 1, left, width)
            result.append(frame)
            queue.append(frame)
            left += width
    return tuple(result)


def tone(record: Attribution, node: Node) -> str:
    """Return how a node moved: itself, only in its callees, or by less than `GREY` of all."""
    least = GREY * record.counted.base
    base, head = own_counts(node)
    if abs(head - base) >= least:
        return "more" if head > base else "less"
    if abs(node.head - node.base) >= least:
        return "more-below" if node.head > node.base else "less-below"
    return "still"


def _order(node: Node) -> tuple[str, str, int]:
    return node.function.name, node.function.file, node.function.line or 0


def _frame(
    record: Attribution, frame: Frame, address: Callable[[Function], str]
) -> dict[str, object]:
    node, kind = frame.node, tone(record, frame.node)
    base, head = own_counts(node)
    own, below = map(units.count, (base, head)), map(units.count, (node.base, node.head))
    # A qualified name without the functions that define it; a module has its file's.
    name = node.function.name.rpartition("<locals>.")[2].replace("<module>", node.function.file)
    name = _SIGNS.get(kind, "") + name
    return {
        "kind": kind,
        "x": f"{100 * frame.left:.3f}%",
        "y": frame.depth * _HEIGHT,
        "width": f"{100 * frame.width:.3f}%",
        "name": name if frame.width >= _NAMED else "",
        "title": f"{node.function.name}, {place(node.function)} ({node.function.package}): itself "
        f"{' → '.join(own)}, {of_request(record, base, head)} of a request; with what it calls "
        f"{' → '.join(below)}, {of_request(record, node.base, node.head)}",
        "href": address(node.function) if kind in _SIGNS else "",
    }


def own_counts(node: Node) -> tuple[float, float]:
    """Return the instructions of base and head in a node itself, without those below it."""
    base = node.base - sum(child.base for child in node.below)
    return max(0.0, base), max(0.0, node.head - sum(child.head for child in node.below))
