"""A bucket on loopback, as S3 speaks: put, put if absent, get, list, delete. All in memory."""

from __future__ import annotations

import hashlib
import re
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from urllib.request import Request as UrlRequest
from urllib.request import urlopen
from xml.sax.saxutils import escape, unescape

BUCKET: Final = "bucket"


class Objects(ThreadingHTTPServer):
    """The objects by name."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.objects: dict[str, bytes] = {}
        self.times: dict[str, float] = {}  # when each was put
        self.parts: dict[str, dict[int, bytes]] = {}  # of uploads that are not complete
        self.lock = threading.Lock()

    def put(self, name: str, data: bytes) -> None:
        """Puts an object, now."""
        self.objects[name], self.times[name] = data, time.time()


class Request(BaseHTTPRequestHandler):
    """One request after the other on a connection."""

    protocol_version = "HTTP/1.1"
    server: Objects

    def log_message(self, format: str, *args: object) -> None:
        """Tells nobody."""

    @property
    def key(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}").removeprefix("/")

    @property
    def query(self) -> dict[str, str]:
        found = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        return {name: values[0] for name, values in found.items()}

    @property
    def date(self) -> str:
        return formatdate(self.server.times[self.key], usegmt=True)

    def content(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, status: int, data: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_PUT(self) -> None:
        data = self.content()
        with self.server.lock:
            if "uploadId" in self.query:
                number = int(self.query["partNumber"])
                self.server.parts.setdefault(self.query["uploadId"], {})[number] = data
                self.answer(200, ETag=_tag(data))
                return
            if self.headers.get("If-None-Match") == "*" and self.key in self.server.objects:
                self.answer(412)
                return
            self.server.put(self.key, data)
        self.answer(200, ETag=_tag(data))

    def do_HEAD(self) -> None:
        data = self.server.objects.get(self.key)
        if data is None:
            self.answer(404)
        else:
            size = str(len(data))
            self.answer(200, Content_Length=size, ETag=_tag(data), Last_Modified=self.date)

    def do_GET(self) -> None:
        if not self.key:
            self.answer(200, self._listed().encode(), Content_Type="application/xml")
            return
        data = self.server.objects.get(self.key)
        if data is None:
            self.answer(404)
            return
        headers = {"ETag": _tag(data), "Last_Modified": self.date}
        wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range") or "")
        if wanted is None:
            self.answer(200, data, **headers)
            return
        first = int(wanted[1]) if wanted[1] else len(data) - int(wanted[2])
        last = int(wanted[2]) if wanted[1] and wanted[2] else len(data) - 1
        part = data[first : last + 1]
        span = f"bytes {first}-{first + len(part) - 1}/{len(data)}"
        self.answer(206, part, Content_Range=span, **headers)

    def _listed(self) -> str:
        prefix, after = self.query.get("prefix", ""), self.query.get("start-after", "")
        names = [name for name in sorted(self.server.objects) if name.startswith(prefix)]
        rows = "".join(
            f"<Contents><Key>{escape(name)}</Key><LastModified>{_moment(self.server.times[name])}"
            f"</LastModified><Size>{len(self.server.objects[name])}</Size>"
            f"<ETag>{_tag(self.server.objects[name])}</ETag></Contents>"
            for name in names
            if name > after and not ("delimiter" in self.query and "/" in name[len(prefix) :])
        )
        if "delimiter" in self.query:
            inner = (name[len(prefix) :].partition("/") for name in names if name > after)
            for folder in sorted({prefix + first for first, slash, _ in inner if slash}):
                rows += f"<CommonPrefixes><Prefix>{escape(folder)}/</Prefix></CommonPrefixes>"
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>"

    def do_POST(self) -> None:
        text = self.content().decode()
        if "age" in self.query:  # of tests: the object was put that many seconds ago
            self.server.times[self.key] = time.time() - float(self.query["age"])
            self.answer(200)
            return
        if "uploads" in self.query:
            self.answer(200, _result("InitiateMultipartUpload", UploadId=secrets.token_hex(8)))
            return
        if "uploadId" in self.query:
            parts = self.server.parts.pop(self.query["uploadId"], {})
            data = b"".join(parts[number] for number in sorted(parts))
            self.server.put(self.key, data)
            self.answer(200, _result("CompleteMultipartUpload", ETag=escape(_tag(data))))
            return
        gone = [unescape(name) for name in re.findall(r"<Key>(.*?)</Key>", text)]
        for name in gone:
            self.server.objects.pop(name, None)
        rows = "".join(f"<Deleted><Key>{escape(name)}</Key></Deleted>" for name in gone)
        self.answer(200, f"<DeleteResult>{rows}</DeleteResult>".encode())

    def do_DELETE(self) -> None:
        self.server.objects.pop(self.key, None)
        self.answer(204)


def _result(kind: str, **values: str) -> bytes:
    inner = "".join(f"<{name}>{value}</{name}>" for name, value in values.items())
    return f"<{kind}Result>{inner}</{kind}Result>".encode()


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _tag(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'


class Bucket(NamedTuple):
    """The bucket of another process: delta-rs waits for answers with Python's lock in its hands."""

    url: str

    @property
    def options(self) -> dict[str, str]:
        """What opens it, as `deltalake` takes it."""
        return {
            "aws_endpoint_url": self.url,
            "aws_allow_http": "true",
            "aws_region": "us-east-1",
            "aws_access_key_id": "key",
            "aws_secret_access_key": "secret",
        }

    @property
    def names(self) -> list[str]:
        """What is in it."""
        with urlopen(f"{self.url}/{BUCKET}") as answer:
            found = re.findall(r"<Key>(.*?)</Key>", answer.read().decode())
        return [unescape(name) for name in found]

    def delete(self, name: str) -> None:
        """Takes an object away."""
        urlopen(UrlRequest(f"{self.url}/{BUCKET}/{name}", method="DELETE")).close()

    def age(self, name: str, seconds: int) -> None:
        """Makes an object that old."""
        urlopen(UrlRequest(f"{self.url}/{BUCKET}/{name}?age={seconds}", method="POST")).close()


@contextmanager
def bucket() -> Iterator[Bucket]:
    """A bucket for as long as this lasts."""
    words = [sys.executable, "-m", "tests.process.object_store"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Bucket(f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.kill()


if __name__ == "__main__":
    with Objects() as server:
        print(server.server_port, flush=True)
        server.serve_forever()
