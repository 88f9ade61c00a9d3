"""A server whose directory is a document, and what it logs."""

from __future__ import annotations

import io
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from posthouse.cli import main
from tests.process.offices import Office, wait_until

ROUTING = "routing_server = true"


class Said(NamedTuple):
    """What a command line ended with, and all that it printed."""

    code: int
    text: str


class Desk:
    """Two routing servers that know nothing of each other, and an operator at both."""

    def __init__(
        self, folder: Path, running: ExitStack, monkeypatch: pytest.MonkeyPatch, more: str = ""
    ) -> None:
        self.alpha, self.beta = (
            Office(folder / name, name, running, more, machine=ROUTING)
            for name in ("ALPHA", "BETA")
        )
        self._environment = monkeypatch
        self.beta.create("orders")
        self.orders = self.beta.qm.queue(r".\private$\orders").properties().guid_name

    def say(self, office: Office, *words: str) -> Said:
        """A command line of an operator."""
        self._environment.setenv("POSTHOUSE_HOME", str(office.server.home))
        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            code = main.run(list(words))
        return Said(code, said.getvalue())

    def do(self, *words: str, office: Office | None = None) -> str:
        """The same about the directory, where it has to work."""
        said = self.say(office or self.alpha, "directory", *words)
        assert said.code == 0, (words, said.text)
        return said.text

    def machine(self, name: str, guid: str, *words: str) -> None:
        self.do("machine", "add", name, guid, *words)

    def enter_beta(self, *words: str) -> None:
        self.machine("BETA", self.beta.qm.guid, "--address", f"127.0.0.1:{self.beta.port}", *words)

    def send(self, name: str, body: bytes, **properties: Any) -> None:
        self.alpha.qm.queue(name).send(body, recoverable=True, **properties)

    def shows(self, name: str, reason: str) -> None:
        """`queue show` has the reason, sooner or later."""

        def shown() -> str:
            return self.say(self.alpha, "queue", "show", name).text

        wait_until(lambda: reason in shown(), shown)

    def machines(self) -> str:
        return self.say(self.alpha, "directory", "machine", "list").text

    def queues(self) -> str:
        """Public queues as the other machine finds them."""
        return self.say(self.beta, "directory", "export").text

    def is_offline(self, told: list[str]) -> bool:
        """Whether `status` says so; `told` gets what it says."""
        told.append(self.say(self.alpha, "status").text)
        return "offline" in told[-1]

    def arrives(self, body: bytes) -> None:
        wait_until(lambda: body in self.beta.bodies("orders"), lambda: self.beta.bodies("orders"))
