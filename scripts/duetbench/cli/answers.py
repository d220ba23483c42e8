"""What a verb has found, handed over in the forms that were asked for."""

from importlib import import_module
from pathlib import Path
from typing import Annotated, Final

from typer import Option

from duetbench.cli.options import require_writable
from duetbench.host.console import Console, write

_STANDARD: Final = Path("-")
_PAGES: Final = "duetbench.show.site.pages.comparisons"

HtmlOption = Annotated[
    Path | None,
    Option(
        "--html",
        metavar="FILE",
        help="Write one HTML page, which needs no server and no network: every sample as a dot.",
    ),
]

MarkdownOption = Annotated[
    Path | None,
    Option("--markdown", metavar="FILE", help="Write the report as Markdown; -: standard output."),
]

JsonFileOption = Annotated[
    Path | None,
    Option(
        "--output", "-o", "--json", metavar="FILE", help="Write it as JSON; -: standard output."
    ),
]

DetailsOption = Annotated[
    bool, Option("--details", help="Print all of the report, as duetbench show does.")
]


def console_for(targets: dict[str, Path | None]) -> Console:
    """The console of a verb that will write these files, which are tried; see `require_writable`.

    Where standard output gets one of them, what is said goes to standard error.
    """
    require_writable({option: _file(path) for option, path in targets.items()})
    return Console(stderr=_STANDARD in targets.values())


def put(text: str, path: Path | None) -> None:
    """Write a text to a file or, with `-`, to standard output; RecordError if it cannot be."""
    if path is not None:
        write(text, _file(path))


def put_html(path: Path | None, comparison: object) -> None:
    """Write a comparison as one HTML page, with the site, which nothing else of a verb imports."""
    if path is not None:
        put(import_module(_PAGES).one_file(comparison), path)


def _file(path: Path | None) -> Path | None:
    return None if path == _STANDARD else path
