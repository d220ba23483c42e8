"""A badge: a name and a result in a few words, as a picture that any page can show.

It stands alone, where no stylesheet of ours is, and inside pages that forbid styles: all of its
looks are in attributes.
"""

from typing import Final

from duetbench.show.site.charts import svg

TONES: Final = {"worse": "#9a3d00", "better": "#005a8f", "same": "#4a5159", "open": "#635400"}
"""Colours of results: white text has five times their contrast, and more."""

_NAME: Final = "#1c1f23"
_PAD: Final = 7.0  # px at either side of a text
_HEIGHT: Final = 20


def badge(name: str, result: str, tone: str, said: str) -> str:
    """The badge as an `<svg>`; `said` is read aloud, and shown under the pointer."""
    left, right = (svg.text_width(text) + 2 * _PAD for text in (name, result))
    width, said = svg.px(left + right), svg.escaped(said)
    size = f'viewBox="0 0 {width} {_HEIGHT}" width="{width}" height="{_HEIGHT}"'
    right_half = f'x="{svg.px(left)}" width="{svg.px(right)}" height="{_HEIGHT}"'
    font = 'font-family="Verdana,DejaVu Sans,Arial,sans-serif" font-size="12" fill="#fff"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{said}">'
        f'<title>{said}</title><rect width="{svg.px(left)}" height="{_HEIGHT}" fill="{_NAME}"/>'
        f'<rect {right_half} fill="{TONES[tone]}"/>'
        f'<g {font}><text x="{svg.px(_PAD)}" y="14">{svg.escaped(name)}</text>'
        f'<text x="{svg.px(left + _PAD)}" y="14">{svg.escaped(result)}</text></g></svg>'
    )
