"""Our own server: `posthouse serve`, as anybody would start it."""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from pathlib import Path
from typing import ClassVar

from benchmarks.peers.server import Command, Server, serving
from posthouse.client.connect import connect

_SYNCS = re.compile(rb"^posthouse_sync_seconds_count (\S+)$", re.MULTILINE)


class PosthouseServer(Server):
    """Clients come over TCP with a token, like those of the others; nothing is tuned."""

    title: ClassVar[str] = "Posthouse"
    durable: ClassVar[str] = "answer after fdatasync of the log"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.home = directory / "home"
        self._ready_file = directory / "ready.json"
        self._token_file = directory / "token"
        self._url = self._binary = ""

    def command(self) -> Command:
        """On any free ports."""
        words = [sys.executable, "-m", "posthouse.cli.main", "serve", "--home", str(self.home)]
        words += ["--name", "BENCH", "--ports", "ephemeral", "--ready-file", str(self._ready_file)]
        return Command(words, {})

    def accepts(self) -> bool:
        """Whether the server has written its ready file."""
        return self._ready_file.exists()

    def settle(self) -> None:
        """Makes the token."""
        endpoints = json.loads(self._ready_file.read_bytes())["endpoints"]
        self._url, self._binary = f"http://{endpoints['admin']}", endpoints["binary"]
        with connect(self.home) as manager:
            made = manager.call("POST", "/tokens", {"role": "administer"})
        self._token_file.touch(0o600)
        self._token_file.write_text(made["token"], encoding="ascii")

    @property
    def binary(self) -> str:
        """Where other queue managers connect."""
        return self._binary

    @property
    def address(self) -> str:
        """The endpoint and the file with the token."""
        return f"{self._url} {self._token_file}"

    def syncs(self) -> int:
        """From its metrics."""
        token = self._token_file.read_text(encoding="ascii")
        request = urllib.request.Request(f"{self._url}/metrics")
        request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request) as answer:
            found = _SYNCS.search(answer.read())
        assert found is not None, "the metrics do not show the number of syncs"
        return int(float(found[1]))


class BinaryServer(PosthouseServer):
    """A server for a producer that connects as another queue manager."""

    title: ClassVar[str] = "Posthouse, MS-MQQB"
    durable: ClassVar[str] = "session acknowledgment after fdatasync of the log"

    @property
    def address(self) -> str:
        """The endpoint of the consumer, its token, the endpoint of the producer."""
        return f"{super().address} {self._binary}"


class PairServer(PosthouseServer):
    """Two queue managers: the producer sends to the first, which delivers to the second."""

    title: ClassVar[str] = "Posthouse, two managers"
    durable: ClassVar[str] = "answer of the first after fdatasync of its log"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        (directory / "second").mkdir()
        self._second = PosthouseServer(directory / "second")
        self._running = serving(self._second)

    def configure(self) -> None:
        """The second runs as long as the first."""
        self._running.__enter__()

    def stopped(self) -> None:
        """The first has ended."""
        self._running.__exit__(None, None, None)

    @property
    def address(self) -> str:
        """Endpoint and token of the first, then of the second, and where the first reaches it."""
        return f"{super().address} {self._second.address} {self._second.binary}"

    def processes(self) -> list[int]:
        """Of both."""
        return super().processes() + self._second.processes()

    def syncs(self) -> int:
        """Of both."""
        return super().syncs() + self._second.syncs()
