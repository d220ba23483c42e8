"""Links of a package's releases, from their own metadata.

One file per package, `results/packages/<package>.json`, grows with its versions. Metadata are
foreign text, so duetbench takes only web addresses, under well-known labels. It ignores links back
to the package's index.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from email.message import Message
from email.parser import HeaderParser
from itertools import chain
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, get_args
from urllib.parse import urlsplit

from packaging.utils import canonicalize_name
from pydantic import Field, StringConstraints, ValidationError

from duetbench.core.model import Artefact, Frozen
from duetbench.host import files

URL: Final = (
    r"^https?://[A-Za-z0-9.-]+\.[A-Za-z]{2,}(:[0-9]{1,5})?(/[A-Za-z0-9/._~%!$&()*+,;=:@?#-]*)?$"
)
"""An address without anything deceptive: no user name, quote, white space or backslash."""

Url = Annotated[str, StringConstraints(pattern=URL, max_length=300)]
_FORGE: Final = re.compile(r"(https?://[^/]+/[^/]+/[^/?#]+?)(?:\.git)?/?")
"""An owner and a repository on some host."""

Kind = Literal["home", "source", "changelog", "documentation", "issues"]
_SOURCES: Final[tuple[Kind, ...]] = ("source", "home")
Version = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9.!+_-]{0,99}$")]


_LABELS: Final[dict[str, Kind]] = {
    **{kind: kind for kind in get_args(Kind)},
    **dict.fromkeys(("homepage",), "home"),
    **dict.fromkeys(("repository", "sourcecode", "github", "gitlab", "code"), "source"),
    **dict.fromkeys(("changes", "history", "whatsnew", "releasenotes"), "changelog"),
    **dict.fromkeys(("docs",), "documentation"),
    **dict.fromkeys(("bugs", "issue", "tracker", "issuetracker", "bugtracker"), "issues"),
}
"""The well-known labels of the packaging specifications, lower case without punctuation."""

_INDEX: Final = frozenset({"project", "pypi", "simple", "packages", "p"})
"""First part of an index's path to a package; the package's name follows."""


class VersionLinks(Frozen):
    """Links in one version's metadata."""

    links: dict[Kind, Url] = Field(default_factory=dict)
    tag: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9._-]{0,30}$",
        description="What precedes the version in the name of its tag, such as `v`, if the "
        "metadata mention a tag; null: they do not.",
    )

    @property
    def repository(self) -> str | None:
        """Address of the repository, if source or home is one on a forge."""
        matches = (_FORGE.fullmatch(self.links.get(kind, "")) for kind in _SOURCES)
        return next((str(match[1]) for match in matches if match), None)

    def differences(self, before: str, version: str) -> str | None:
        """Address that compares two versions' source, if the names of tags are known."""
        if self.tag is None or self.repository is None:
            return None
        return f"{self.repository}/compare/{self.tag}{before}...{self.tag}{version}"


class PackageRecord(Artefact):
    """Links of a package's versions."""

    noun: ClassVar[str] = "links of a package"
    place: ClassVar[str] = "packages/{0.id}.json"

    format: Literal[1] = 1
    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,99}$", description="Its normalised name.")
    versions: dict[Version, VersionLinks]


LinksByVersion = Mapping[tuple[str, str], VersionLinks]
"""Package and version → links in its metadata."""


def remember(results: Path, links_of: LinksByVersion, to: Path | None = None) -> tuple[Path, ...]:
    """Add versions to the files of their packages; return the files that are new or have grown.

    Earlier versions keep their links. The files are written below `to`, by default where they were
    read. Raises RecordError if a file cannot be read or written.
    """
    by_package: dict[str, dict[str, VersionLinks]] = {}
    for (package, version), links in sorted(links_of.items()):
        by_package.setdefault(package, {})[version] = links
    paths = []
    for package, versions in by_package.items():
        record = PackageRecord(id=package, versions=versions)
        if (place := results / record.path).is_file():
            old = files.read(PackageRecord, place).versions
            record = PackageRecord(id=package, versions=dict(sorted({**versions, **old}.items())))
            if record.versions == old:
                continue
        paths.append(files.save(to or results, record))
    return tuple(paths)


def of_folder(folder: Path) -> LinksByVersion:
    """Read the metadata of all packages that are installed in a folder or environment."""
    links: dict[tuple[str, str], VersionLinks] = {}
    metadata = "*.dist-info/METADATA"
    for path in chain(*map(folder.glob, (metadata, f"lib/python*/site-packages/{metadata}"))):
        message = HeaderParser().parsestr(path.read_text("utf-8", "replace"))
        package, version = canonicalize_name(str(message["Name"])), str(message["Version"])
        links[package, version] = _links(message, package, version)
    return links


def _links(message: Message, package: str, version: str) -> VersionLinks:
    links: dict[Kind, str] = {}
    urls = [str(line).partition(",")[::2] for line in message.get_all("Project-URL", [])]
    for label, url in [*urls, ("homepage", str(message["Home-page"] or ""))]:
        kind = _LABELS.get(re.sub(r"[\W_]", "", label).lower())
        if kind is not None and not _of_an_index(url.strip(), package):
            with suppress(ValidationError):
                links = {**VersionLinks(links={kind: url.strip()}).links, **links}
    return VersionLinks(links=links, tag=_tag(str(message.get_payload()), links, version))


def _of_an_index(url: str, package: str) -> bool:
    first, name = [*filter(None, urlsplit(url).path.split("/")), "", ""][:2]
    return first in _INDEX and canonicalize_name(name) == package


def _tag(description: str, links: dict[Kind, str], version: str) -> str | None:
    """What precedes the version in the name of its tag, from a link in the description.

    Such a link also proves that the forge's addresses have this form.
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
