"""A comment fits GitHub's page, and a phone: nothing of its table is cut off."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from markdown_it import MarkdownIt

if TYPE_CHECKING:
    from playwright.sync_api import Browser

DATA = Path(__file__).parents[1] / "data" / "answers"
STYLE = """body{font:14px/1.5 "Liberation Sans",Arial,sans-serif;margin:16px}
table{border-collapse:collapse;display:block;overflow:auto;width:max-content;max-width:100%}
td,th{border:1px solid;padding:6px 13px}"""
"""Of comments on GitHub, as far as widths follow from it."""


@pytest.mark.parametrize("width", [780, 390])
@pytest.mark.parametrize("name", ["release-slower", "no-change", "server-choice"])
def test_a_comments_table_fits(name: str, width: int, chromium: "Browser") -> None:
    text = (DATA / f"{name}.md").read_text("utf-8")
    visible = text.partition("<details>")[0]
    lines = [line for line in visible.splitlines() if line.strip() and "---" not in line]
    assert len(lines) <= 12
    body = MarkdownIt("commonmark", {"html": True}).enable("table").render(visible)
    page = chromium.new_page(viewport={"width": width, "height": 800})
    page.set_content(f"<!doctype html><style>{STYLE}</style>{body}")
    beyond = page.evaluate("(t => t.scrollWidth - t.clientWidth)(document.querySelector('table'))")
    page.close()
    assert beyond <= 0
