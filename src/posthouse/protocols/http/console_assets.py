"""The files of the web console, and the headers that they are served with.

The start page names all others under a digest of all of them: browsers keep those for ever, and ask
for new ones after an update.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from posthouse.protocols.handlers.refusals import MethodNotAllowed, NoSuchPath
from posthouse.protocols.http.answers import HttpAnswer

CONSOLE: Final = "/console/"
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
FOR_EVER: Final = "public, max-age=31536000, immutable"
START_PAGE: Final = "index.html"
_DIGEST: Final = "DIGEST"  # in the start page


class ConsoleAssets:
    """The files of the package, in memory from the first request on."""

    def __init__(self) -> None:
        self._files: Mapping[str, bytes] = {}
        self.digest = ""

    def answer(self, path: str, method: str) -> HttpAnswer:
        """One of the files; `path` is the whole path of the request."""
        if not self._files:
            self._load()
        rest = path.removeprefix(CONSOLE)
        folder, _, name = rest.partition("/")
        if rest and not (folder == self.digest and name in self._files and name != START_PAGE):
            raise NoSuchPath("the console has no such file", "Load the console again.")
        if method not in ("GET", "HEAD"):
            raise MethodNotAllowed("files of the console are read only", ("GET", "HEAD"))
        name = name or START_PAGE
        caching = FOR_EVER if rest else "no-cache"
        kind = _TYPES[name.rpartition(".")[2]]
        return HttpAnswer(200, self._files[name], kind, {**HEADERS, "Cache-Control": caching})

    def _load(self) -> None:
        found = dict(sorted(_read(files("posthouse").joinpath("console"))))
        whole = hashlib.sha256()
        for name, content in found.items():
            whole.update(f"{name}\0{len(content)}\0".encode() + content)
        self.digest = whole.hexdigest()[:16]
        start = found[START_PAGE].replace(_DIGEST.encode(), self.digest.encode())
        self._files = {**found, START_PAGE: start}


def _read(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _read(entry, f"{prefix}{entry.name}/")
        elif entry.name.rpartition(".")[2] in _TYPES:
            yield prefix + entry.name, entry.read_bytes()
