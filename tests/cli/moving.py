"""Two machines for tests of `posthouse migrate`: one that is read from afar, and the one here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import posthouse as ph_module
from tests.cli.conftest import Posthouse, Result
from tests.client.read_serving import PASSWORD, ReadServing, read_serving
from tests.client.serving import Serving

NUMBERS = count()
ADMIN = "mover"


@contextmanager
def far_machine() -> Iterator[ReadServing]:
    """A machine with an administrator who may log in from afar."""
    with read_serving() as server:
        with ph_module.connect(server.home) as qm:
            body = {"name": ADMIN, "doors": ["rpc"], "administrator": True, "password": PASSWORD}
            qm.call("POST", "/users", body)
        yield server


class Moving:
    """Two machines, and the commands between them."""

    def __init__(self, far: ReadServing, here: Serving, run: Posthouse, folder: Path) -> None:
        self.far, self.here, self.run, self._folder = far, here, run, folder
        self.theirs = ph_module.connect(far.home)
        self.ours = ph_module.connect(here.home)
        for queue in self.theirs.queues():
            self.theirs.delete_queue(queue.path)
        self.name = f"orders-{next(NUMBERS)}"
        self.path = rf".\private$\{self.name}"
        self.source = f"127.0.0.1/private$/{self.name}"
        self.inventory = folder / "inventory.json"
        self.password = folder / "password.txt"
        self.password.write_text(PASSWORD + "\n", encoding="utf-8")

    def close(self) -> None:
        self.theirs.close()
        self.ours.close()

    def create(self, *bodies: bytes, **properties: Any) -> None:
        self.theirs.create_queue(self.path, **properties)
        queue = self.theirs.queue(self.path)
        if properties.get("transactional"):
            with self.theirs.transaction() as tx:
                queue.send_many(bodies, tx=tx)
        else:
            queue.send_many(bodies, recoverable=True)
        queue.close()

    def login(self) -> list[str]:
        return [
            "--user", ADMIN, "--password-file", str(self.password), "--rpc-port",
            str(self.far.rpc_port), "--binary-port", str(self.far.binary_port), "--patience", "5s",
        ]  # fmt: skip

    def __call__(self, *words: str | Path, stdin: bytes = b"") -> Result:
        return self.run("migrate", *words, "--home", self.here.home, stdin=stdin)

    def scan(self) -> None:
        place = f"127.0.0.1:{self.far.rpc_port}"
        login = ("--user", ADMIN, "--password-file", self.password)
        done = self.run("scan", place, *login, "--output", self.inventory)
        assert done.code == 0, done.err + done.out

    def bodies(self, path: str = "") -> list[bytes]:
        return [one.body for one in self.ours.queue(path or self.path).browse()]

    def there(self) -> list[bytes]:
        with ph_module.connect(self.far.home) as qm:
            return [one.body for one in qm.queue(self.path).browse()]
