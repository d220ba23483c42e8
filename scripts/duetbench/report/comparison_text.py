"""A comparison on a terminal and in Markdown."""

from collections.abc import Callable, Sequence
from importlib import import_module

from rich.console import Console
from rich.text import Text

from duetbench.core.comparison import Comparison
from duetbench.host import files
from duetbench.report import formats
from duetbench.report.report import make_report


def print_comparison(console: Console, comparison: Comparison, *, details: bool = True) -> None:
    """Print the report; with details, its sections as well."""
    report = make_report(comparison)
    console.print(Text(report.headline, style=f"bold {formats.style_of(report.headline)}"))
    if report.rows:
        console.print()
        formats.print_rows(console, report.head, report.rows)
    console.print()
    for line in report.lines:
        formats.print_line(console, line)
    if report.command:
        console.print(Text(f"  next: {report.command}"), soft_wrap=True)
    if details:
        for section in report.sections:
            console.print()
            formats.print_section(console, section)
        console.print(formats.GLOSSARY)


def as_markdown(comparison: Comparison, *, lead: Sequence[str] = ()) -> str:
    """Write a comparison as Markdown: what people need fits a dozen lines, the rest is folded.

    `lead` are paragraphs above the table.
    """
    report = make_report(comparison)
    more = f" ({report.more} more)" if report.more else ""
    parts = (
        f"### {formats.escape(report.headline)}",
        *lead,
        formats.markdown(formats.Section("", (), report.head, report.rows)),
        *map(formats.escape, report.lines),
        f"<details><summary>All figures{more} · method · repeat it</summary>",
        *map(formats.markdown, report.sections),
        "</details>",
    )
    return "\n\n".join(filter(None, parts)) + "\n"


def texts_of(comparison: Comparison) -> dict[str, Callable[[], str]]:
    """Return how a comparison is written, by the suffix; only a page imports what makes pages."""

    def page() -> str:
        text: str = import_module("duetbench.report.html.comparison_page").one_file(comparison)
        return text

    return {
        ".json": lambda: files.encode(comparison).decode(),
        ".md": lambda: as_markdown(comparison),
        ".html": page,
    }
