"""A package index on loopback, with packages that are made up."""

from __future__ import annotations

import base64
import hashlib
import http.server
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest


def wheel(name: str, version: str, needs: tuple[str, ...] = ()) -> bytes:
    info = f"{name}-{version}.dist-info"
    requires = "".join(f"Requires-Dist: {need}\n" for need in needs)
    files = {
        f"{name}.py": f"version = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record += f"{path},sha256={digest.decode()},{len(text)}\n"
    files[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, text in files.items():
            # Without a date of its own, the same wheel has the same hash whenever it is made.
            entry = zipfile.ZipInfo(path)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, text)
    return packed.getvalue()


@dataclass
class Index:
    """A package index that tells when a file was uploaded."""

    address: str = ""
    files: dict[str, tuple[str, str, bytes]] = field(default_factory=dict)

    def add(self, name: str, version: str, day: str, needs: tuple[str, ...] = ()) -> str:
        """Upload a wheel on a day; its line in a lock."""
        content = wheel(name, version, needs)
        self.files[f"{name}-{version}-py3-none-any.whl"] = (name, day, content)
        return f"{name}=={version} --hash=sha256:{hashlib.sha256(content).hexdigest()}\n"

    def page(self, project: str) -> bytes:
        """The project's page in the index's JSON format (PEP 691, upload times of PEP 700)."""
        listed = [
            {
                "filename": filename,
                "url": f"{self.address}/files/{filename}",
                "hashes": {"sha256": hashlib.sha256(content).hexdigest()},
                "size": len(content),
                "upload-time": f"{day}T12:00:00Z",
            }
            for filename, (name, day, content) in self.files.items()
            if name == project
        ]
        versions = [str(item["filename"]).split("-")[1] for item in listed]
        page = {"meta": {"api-version": "1.1"}, "name": project, "files": listed}
        return json.dumps({**page, "versions": versions}).encode()


@contextmanager
def serving() -> Iterator[Index]:
    """Serve an empty index, to be filled, until the end of the block."""
    served = Index()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            kind, _, name = self.path.strip("/").partition("/")
            if kind == "files":
                content, media = served.files[name][2], "application/octet-stream"
            else:
                content, media = served.page(name), "application/vnd.pypi.simple.v1+json"
            self.send_response(200)
            self.send_header("Content-Type", media)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def log_message(self, *_args: object) -> None:
            """Keep quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    served.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def serving_beta(patch: pytest.MonkeyPatch, uv_cache: Path) -> Iterator[Index]:
    """`alpha` needs `beta`; of `beta` there are three versions, the newest of March 2026.

    uv asks for nothing else.
    """
    with serving() as served:
        patch.setenv("UV_DEFAULT_INDEX", f"{served.address}/simple")
        patch.setenv("UV_CACHE_DIR", str(uv_cache))
        names = ("UV_FIND_LINKS", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_OFFLINE")
        for name in names:
            patch.delenv(name, raising=False)
        served.add("alpha", "1.0", "2026-01-10", ("beta",))
        served.add("beta", "1.0", "2026-01-11")
        served.add("beta", "1.5", "2026-02-11")
        served.add("beta", "2.0", "2026-03-01")
        yield served
