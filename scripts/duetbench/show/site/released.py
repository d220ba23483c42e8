"""What is known of each package under test: its releases, changes and comparisons. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from duetbench.store.change import Change
from duetbench.store.comparison import Comparison
from duetbench.store.packages import PackageRecord, VersionLinks
from duetbench.store.points import Points
from duetbench.trend.columns import RunHeader
from duetbench.trend.releases import ReleaseAxis, axes, order


@dataclass(frozen=True, slots=True)
class ReleasedPackage:
    """What is known of a package under test.

    Attributes:
        name: As locks have it.
        locked: Stack → version, in the newest lock that was measured.
        changes: Whose locks differ in it, or that it is named as the cause of; newest first.
        comparisons: Stored ones whose sides differ in it, newest first.
        versions: Those with pages of their own: measured, or the cause of a change; the oldest
            first.
        about: Links of its versions, where its metadata were read.
    """

    name: str
    axes: tuple[ReleaseAxis, ...] = ()
    locked: Mapping[str, str] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    versions: tuple[str, ...] = ()
    about: PackageRecord | None = None

    def links(self, version: str = "") -> VersionLinks:
        """Where a version leads, or the newest one that is known; and how tags are named."""
        versions = self.about.versions if self.about else {}
        if not versions:
            return VersionLinks()
        newest = sorted(versions, key=order)
        links = versions.get(version) or versions[newest[-1]]
        tags = (versions[number].tag for number in newest[::-1] if versions[number].tag is not None)
        tag = links.tag if links.tag is not None else next(tags, None)
        return links.model_copy(update={"tag": tag})


def packages(
    points: Sequence[Points],
    headers: Iterable[RunHeader],
    changes: Iterable[Change],
    comparisons: Iterable[Comparison],
    about: Iterable[PackageRecord],
) -> dict[str, ReleasedPackage]:
    """All packages that locks have had, or that were measured or named, by name.

    `headers` with the oldest first, changes and comparisons with the newest.
    """
    measured = axes(points)
    mentions: dict[str, list[Change]] = defaultdict(list)
    compared: dict[str, list[Comparison]] = defaultdict(list)
    versions: dict[str, set[str]] = defaultdict(set)
    stacks: dict[str, Mapping[str, str]] = {}
    names: set[str] = set(measured)
    for header in headers:
        stacks |= header.packages
        for lock in header.packages.values():
            names |= lock.keys()
    for record in changes:
        moved = {move.package for move in record.packages}
        for name in moved | {release.package for release in record.releases}:
            mentions[name].append(record)
        for release in record.releases:
            versions[release.package].add(release.version)
    for comparison in comparisons:
        for name in {move.package for move in comparison.packages}:
            compared[name].append(comparison)
    for name, of_package in measured.items():
        versions[name] |= {release.version for axis in of_package for release in axis.releases}
    metadata = {record.id: record for record in about}
    return {
        name: ReleasedPackage(
            name,
            measured.get(name, ()),
            {stack: lock[name] for stack, lock in sorted(stacks.items()) if name in lock},
            tuple(mentions.get(name, ())),
            tuple(compared.get(name, ())),
            tuple(sorted(versions.get(name, ()), key=order)),
            metadata.get(name),
        )
        for name in sorted({*names, *mentions, *compared, *versions})
    }
