"""A comparison as one HTML file: no server, no script, nothing that is fetched.

Template, charts and styles are the site's own; what leads to its other pages is left out.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Final

from markupsafe import Markup

from duetbench.core import __version__
from duetbench.show.site.charts import forest
from duetbench.show.site.pages import comparisons
from duetbench.show.site.pages.page import filled
from duetbench.show.view import make_view
from duetbench.store.comparison import Comparison

_STYLE: Final = Path(__file__).with_name("static") / "site.css"
_NOWHERE: Final = SimpleNamespace(planned=frozenset(), packages={})
"""In place of the site: no case and no package has a page."""


def of_comparison(comparison: Comparison) -> str:
    """A comparison with every duet."""
    css = _STYLE.read_text("utf-8")
    return filled(
        "comparison.html.j2",
        layout="alone.html.j2",
        style=Markup(f"{forest.stylesheet()}\n{css}"),  # noqa: S704 - our own files
        site=_NOWHERE,
        root="",
        title=f"{comparison.base.label} → {comparison.head.label}",
        version=__version__,
        confirmed=(),
        **comparisons.content(comparison, make_view(comparison)),
    )
