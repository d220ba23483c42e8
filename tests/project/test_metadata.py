"""Links out of the packages' own metadata, and the files that keep them."""

from pathlib import Path

import pytest

from duetbench.core.errors import RecordError
from duetbench.store import files
from observatory.store import kinds, packages
from observatory.store.packages import PackageRecord, VersionLinks


def installed(folder: Path, name: str, version: str, *lines: str, description: str = "") -> None:
    place = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    place.mkdir(parents=True)
    head = "\n".join(("Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", *lines))
    (place / "METADATA").write_bytes(f"{head}\n\n{description}".encode() + b"\xff\n")


def test_labels_mean_what_everybody_means_by_them(tmp_path: Path) -> None:
    place = tmp_path / "lib" / "python3.14" / "site-packages"
    installed(
        place, "Py_Web", "1.2.0", "Home-page: https://web.example",
        "Project-URL: Source Code, https://forge.example/a/web",
        "Project-URL: Release Notes, http://web.example/new?all=1#top",
        "Project-URL: Bug-Tracker, https://forge.example/a/web/issues",
        "Project-URL: Changelog, https://web.example/second",
        description="New: [1.2](https://forge.example/a/web/releases/tag/v1.2.0)",
    )  # fmt: skip
    installed(place, "quiet", "0.1")
    assert packages.of_folder(tmp_path) == {
        ("py-web", "1.2.0"): VersionLinks(
            links={
                "home": "https://web.example",
                "source": "https://forge.example/a/web",
                "changelog": "http://web.example/new?all=1#top",
                "issues": "https://forge.example/a/web/issues",
            },
            tag="v",
        ),
        ("quiet", "0.1"): VersionLinks(),
    }


@pytest.mark.parametrize(
    "line",
    [
        "Project-URL: Homepage, javascript:alert(1)",
        "Project-URL: Homepage, ftp://web.example/",
        "Project-URL: Homepage, https://user:word@web.example/",
        'Project-URL: Homepage, https://web.example/"onload="x',
        "Project-URL: Homepage, https://localhost/",
        "Project-URL: Homepage, https://web.example\\@evil.example/",
        "Project-URL: Homepage, https://wéb.example/",
        f"Project-URL: Homepage, https://web.example/{'x' * 300}",
        "Project-URL: Homepage, https://index.example/project/Web/",
    ],
)
def test_what_is_no_plain_address_is_left_out(tmp_path: Path, line: str) -> None:
    installed(tmp_path, "web", "1.0", line)
    assert packages.of_folder(tmp_path) == {("web", "1.0"): VersionLinks()}


def test_files_grow_with_versions_and_belong_to_the_history(tmp_path: Path) -> None:
    one, other = (VersionLinks(links={"home": f"https://{name}.example"}) for name in "ab")
    (path,) = packages.remember(tmp_path, {("web", "1.0"): one})
    assert packages.remember(tmp_path, {("web", "1.0"): other}) == ()
    (grown,) = packages.remember(tmp_path, {("web", "1.1"): other}, tmp_path / "new")
    assert files.read(PackageRecord, path).versions == {"1.0": one}
    assert files.read(PackageRecord, grown).versions == {"1.0": one, "1.1": other}
    (file,), _, others = kinds.collect(tmp_path / "new")
    assert (file.path, file.replaceable, others) == ("packages/web.json", True, ())
    path.write_text(path.read_text().replace("https://a.example", "javascript:alert(1)"))
    with pytest.raises(RecordError, match="expected links of a package"):
        files.read(PackageRecord, path)
