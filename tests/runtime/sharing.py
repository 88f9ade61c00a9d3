"""Queue managers of the engine's tests that share a directory: one file, asked without a thread."""

from __future__ import annotations

import random
from collections.abc import Collection
from pathlib import Path
from typing import Any

from posthouse.directory.document.document import Holdings, described
from posthouse.directory.document.text import written
from posthouse.directory.mirror import Action, Order, carry_out
from posthouse.directory.objects import DirectoryObject
from posthouse.engine.ledger.state import State
from posthouse.runtime.directory.feed import PORTION, DirectoryFeed, need_now
from posthouse.runtime.directory.file import FileAuthority
from tests.engine.rig import Rig


def file_of(path: Path, *objects: DirectoryObject) -> Path:
    """A directory file that says so."""
    path.write_text(written(described(Holdings.of(objects))))
    return path


class HandyFile(FileAuthority):
    """A directory file that can be asked for one thing at a time."""

    def create(
        self, value: DirectoryObject, utc_s: int, attributes: Collection[str] | None = None
    ) -> DirectoryObject:
        return self.together([Order(Action.CREATE, value, utc_s, attributes)])[0]

    def write(
        self,
        value: DirectoryObject,
        utc_s: int,
        attributes: Collection[str] | None = None,
        base: DirectoryObject | None = None,
    ) -> DirectoryObject:
        return self.together([Order(Action.WRITE, value, utc_s, attributes, base)])[0]

    def delete(self, value: DirectoryObject) -> None:
        self.together([Order(Action.DELETE, value, 0)])


class SharingRig(Rig):
    """ALPHA, or another name, with the directory of a file."""

    def __init__(self, path: Path, *, portion: int = PORTION, **settings: Any) -> None:
        self.portion = portion
        self.turns = 0
        """How often the feed has had something taken in, or looked at."""
        self.seed = random.Random(settings.get("computer_name", "ALPHA"))
        self.authority = HandyFile(path, lambda: self.seed.randbytes(16), lock_wait_s=0.1)
        self.feed = self._feed()
        super().__init__(directory_file=str(path), **settings)

    def _feed(self) -> DirectoryFeed:
        return DirectoryFeed(
            self.authority,
            self._post,
            refresh_s=1,
            away_s=1,
            patience_s=60,
            portion=self.portion,
        )

    def _boot(self, state: State) -> None:
        if not state.definitions:
            self.random = self.seed
        super()._boot(state)
        self.feed = self._feed()
        self.driver.on_need = need_now(self.driver, self.feed.ask_now)

    def _post(self, call: Any, back: Any) -> None:
        self.turns += 1
        back(self.run(call))

    def refresh(self) -> bool:
        """What the feed's thread does from time to time; False: the authority is away."""
        return self.feed.refreshed()

    def change(self, *orders: Any) -> None:
        """Somebody else changes the file."""
        carry_out(FileAuthority(self.authority.path, lambda: self.seed.randbytes(16)), orders)
