"""A package index on loopback, with synthetic packages."""

import hashlib
import io
import json
import logging
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response


def wheel(
    name: str, version: str, needs: tuple[str, ...] = (), files: Mapping[str, str] | None = None
) -> bytes:
    """Make a wheel of these files, or of a module that knows its version."""
    info = f"{name}-{version}.dist-info"
    requires = "".join(f"Requires-Dist: {need}\n" for need in needs)
    if files is None:
        files = {f"{name}.py": f"version = {version!r}\n"}
    files = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    return pack({path: text.encode() for path, text in files.items()}, info)


def pack(files: Mapping[str, bytes], info: str) -> bytes:
    """Make a wheel of these files and their record, which may leave out hashes."""
    last, packed = f"{info}/RECORD", io.BytesIO()
    record = "".join(f"{path},,\n" for path in (*files, last))
    with zipfile.ZipFile(packed, "w") as archive:
        for path, content in {**files, last: record.encode()}.items():
            # Without a date of its own, the same wheel has the same hash whenever it is made.
            entry = zipfile.ZipInfo(path)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return packed.getvalue()


@dataclass
class Index:
    """A package index with the upload time of each file."""

    address: str = ""
    files: dict[str, tuple[str, str, bytes]] = field(default_factory=dict)

    def add(
        self, name: str, version: str, day: str, needs: tuple[str, ...] = (),
        tag: str = "py3-none-any",
    ) -> str:  # fmt: skip
        """Upload a wheel on a day; return its line in a lock."""
        content = wheel(name, version, needs)
        self.files[f"{name}-{version}-{tag}.whl"] = (name, day, content)
        return f"{name}=={version} --hash=sha256:{hashlib.sha256(content).hexdigest()}\n"

    def page(self, project: str) -> bytes:
        """The project's page in the index's JSON format (PEP 691, upload times of PEP 700)."""
        files = [
            {
                "filename": filename,
                "url": f"{self.address}/files/{filename}",
                "hashes": {"sha256": hashlib.sha256(content).hexdigest()},
                "upload-time": f"{day}T12:00:00Z",
            }
            for filename, (name, day, content) in self.files.items()
            if name == project
        ]
        page = {"meta": {"api-version": "1.1"}, "name": project, "files": files}
        return json.dumps(page).encode()


class Server(HTTPServer):
    """A server that stops at once; others check for that only every half second."""

    def thread_target(self) -> None:
        assert self.server is not None
        self.server.serve_forever(poll_interval=0.01)


@contextmanager
def serving(patch: pytest.MonkeyPatch | None = None, cache: Path | None = None) -> Iterator[Index]:
    """Serve an empty index, for tests to fill; with `patch`, uv uses no other index."""
    index = Index()

    def answer(request: Request) -> Response:
        kind, _, name = request.path.strip("/").partition("/")
        if kind == "files":
            return Response(index.files[name][2], content_type="application/octet-stream")
        # The next index may get this one's port, and uv remembers pages by their address.
        return Response(
            index.page(name),
            content_type="application/vnd.pypi.simple.v1+json",
            headers={"Cache-Control": "no-store"},
        )

    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # quiet: what verbs say is compared
    with Server(host="127.0.0.1", threaded=True) as server:
        server.expect_request(re.compile("")).respond_with_handler(answer)
        index.address = f"http://127.0.0.1:{server.port}"
        if patch is not None:
            for name in ("FIND_LINKS", "INDEX", "INDEX_URL", "EXTRA_INDEX_URL", "OFFLINE"):
                patch.delenv(f"UV_{name}", raising=False)
            patch.setenv("UV_DEFAULT_INDEX", f"{index.address}/simple")
            patch.setenv("UV_CACHE_DIR", str(cache))
        yield index
