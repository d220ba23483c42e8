"""What the packages of an environment say of themselves: where their home, source and changes are.

Other people's words. Only addresses of the web are taken, under labels that everybody gives the
same meaning; one that leads back to where the package was downloaded is none of them.
"""

import re
import tempfile
from collections.abc import Iterator
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from typing import Final, get_args
from urllib.parse import urlsplit

from packaging.utils import canonicalize_name
from pydantic import ValidationError

from duetbench.host import command
from duetbench.host.console import Narrator
from duetbench.project import tools
from duetbench.project.types import Stack
from duetbench.store.packages import Kind, LinksByVersion, VersionLinks

LABELS: Final[dict[str, Kind]] = {
    **{kind: kind for kind in get_args(Kind)},
    "homepage": "home",
    "repository": "source",
    "sourcecode": "source",
    "github": "source",
    "gitlab": "source",
    "code": "source",
    "changes": "changelog",
    "history": "changelog",
    "whatsnew": "changelog",
    "releasenotes": "changelog",
    "docs": "documentation",
    "bugs": "issues",
    "issue": "issues",
    "tracker": "issues",
    "issuetracker": "issues",
    "bugtracker": "issues",
}
"""The well-known labels of the packaging specifications, lower case without punctuation."""

_INDEX: Final = frozenset({"project", "pypi", "simple", "packages", "p"})
"""First part of a path that leads to a package on an index, which has the package's name next."""


def of_lock(stack: Stack, version: str, narrator: Narrator) -> LinksByVersion:
    """Read the metadata of what a lock has for a version of Python; none of it is run.

    Raises:
        SetupError: A package cannot be had, or only as its source.
    """
    with tempfile.TemporaryDirectory(prefix="duetbench-metadata-") as folder:
        argv: list[str | Path] = [tools.uv(), "pip", "sync", "--no-config", "--require-hashes"]
        argv += ["--no-build", "--target", folder, stack.lock]
        argv += ["--python-version", version]
        with narrator.step(f"stack {stack.name}", "unpacking its packages") as tick:
            log = tools.new_log(f"metadata-{stack.name}")
            command.run(argv, what=f"unpacking stack {stack.name}", log=log, tick=tick)
        return read(Path(folder))


def of_environment(program: Path) -> LinksByVersion:
    """Read the metadata of the environment of a Python executable."""
    links: dict[tuple[str, str], VersionLinks] = {}
    for place in program.parents[1].glob("lib/python*/site-packages"):
        links |= read(place)
    return links


def read(folder: Path) -> LinksByVersion:
    """Read the metadata of all packages that are installed in a folder."""
    links: dict[tuple[str, str], VersionLinks] = {}
    for path in sorted(folder.glob("*.dist-info/METADATA")):
        message = HeaderParser().parsestr(path.read_text("utf-8", "replace"))
        package, version = canonicalize_name(str(message["Name"])), str(message["Version"])
        links[package, version] = _links(message, package, version)
    return links


def _links(message: Message, package: str, version: str) -> VersionLinks:
    links: dict[Kind, str] = {}
    for label, url in _urls(message):
        kind = LABELS.get(re.sub(r"[\W_]", "", label).lower())
        if kind is not None and not _of_an_index(url, package):
            try:
                VersionLinks(links={kind: url})
            except ValidationError:
                continue
            links.setdefault(kind, url)
    return VersionLinks(links=links, tag=_tag(str(message.get_payload()), links, version))


def _urls(message: Message) -> Iterator[tuple[str, str]]:
    for line in message.get_all("Project-URL", []):
        label, _, url = str(line).partition(",")
        yield label, url.strip()
    if home := message["Home-page"]:
        yield "homepage", str(home).strip()


def _of_an_index(url: str, package: str) -> bool:
    first, name = [*filter(None, urlsplit(url).path.split("/")), "", ""][:2]
    return first in _INDEX and canonicalize_name(name) == package


def _tag(description: str, links: dict[Kind, str], version: str) -> str | None:
    """What stands before the version in the name of its tag, as the description links to one.

    Such a link also proves that the source is on a forge that has its addresses like this.
    """
    source = VersionLinks(links=links).repository
    if source is None:
        return None
    match = re.search(
        rf"{re.escape(source)}/(?:releases/tag|tree|blob|compare/[\w.-]+?\.\.\.)/?"
        rf"([A-Za-z][\w-]{{0,20}}?[-_]?)?{re.escape(version)}(?![\w.]*\d)",
        description,
    )
    return (match[1] or "") if match else None
