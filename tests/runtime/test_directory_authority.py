"""An event loop beside an authority that neither answers nor fails: a dead disk, a mute server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from threading import Event

from posthouse.directory import objects
from posthouse.directory.authority import Changes
from posthouse.directory.mirror import Order, Stored
from posthouse.directory.settings import DirectorySettings
from posthouse.engine.manager import QueueManager
from posthouse.model.errors import NoDs
from posthouse.model.properties import QueueProperties
from posthouse.protocols.engine_calls import Answer
from posthouse.runtime.directory.authority import FollowedDirectory
from posthouse.runtime.directory.file import FileAuthority
from posthouse.runtime.driver import Driver
from posthouse.runtime.loop import Loop
from posthouse.security.access import Caller
from posthouse.sim import SimClock, SimDisk
from posthouse.store.log import LogStore
from posthouse.store.settings import StoreSettings
from tests.engine.settings import engine_settings
from tests.runtime.sharing import file_of

ADMIN = Caller.administrator()
THREAD_S = 30.0


class MuteFile(FileAuthority):
    """A file on a disk that a test can take away in the middle of a change."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, lambda: Random().randbytes(16))
        self.answers = Event()
        self.answers.set()
        self.asked = Event()

    def changes(self, token: str) -> Changes:
        assert self.answers.wait(THREAD_S)
        return super().changes(token)

    def together(self, orders: list[Order]) -> Stored:  # type: ignore[override]
        self.asked.set()
        assert self.answers.wait(THREAD_S)
        return super().together(orders)


class Followed:
    """A queue manager that follows such a file."""

    def __init__(self, path: Path) -> None:
        store, clock = LogStore(SimDisk(1), StoreSettings()), SimClock()
        self.manager = QueueManager(
            engine_settings("ALPHA", directory_file=str(path)),
            store.recover().state,
            store.read,
            Random(1).randbytes,
            store.read_many,
        )
        driver = Driver(self.manager, store, lambda: (clock.now_ms, clock.utc_seconds))
        self.manager.start(clock.now_ms, clock.utc_seconds)
        driver.end_turn()
        driver.sync()
        self.desk = Loop(driver)
        self.desk.start()
        self.file = MuteFile(path)
        section = DirectorySettings(file=str(path), refresh_s=3600, patience_s=int(THREAD_S))
        self.directory = FollowedDirectory(self.desk, self.file, section)

    def fall_silent(self) -> None:
        self.file.answers.clear()
        self.file.asked.clear()
        self.directory.patience_s = 1.0  # enough for the thread to begin

    def speak_again(self) -> None:
        self.directory.patience_s = THREAD_S
        self.file.answers.set()

    async def create(self, name: str) -> Answer:
        return await self.desk.call(
            lambda manager: manager.queues.create_queue(name, QueueProperties(), ADMIN).name
        )


def follow(path: Path, play: Callable[[Followed], Awaitable[None]]) -> None:
    async def played() -> None:
        followed = Followed(file_of(path))
        await followed.directory.start()
        try:
            await play(followed)
        finally:
            followed.file.answers.set()
            followed.directory.close()
            await followed.desk.stop()

    asyncio.run(played())


def test_a_call_does_not_wait_for_ever(tmp_path: Path) -> None:
    async def play(house: Followed) -> None:
        assert (await house.create("ALPHA\\first")).error is None
        house.fall_silent()
        begun, behind = await asyncio.gather(house.create("ALPHA\\a"), house.create("ALPHA\\b"))
        for answer in (begun, behind, await house.create("ALPHA\\c")):
            assert isinstance(answer.error, NoDs)
        assert house.file.asked.wait(THREAD_S)
        assert "has not answered" in house.manager.directory.state().reason
        assert (await house.create("ALPHA\\private$\\p")).error is None
        house.speak_again()
        await house.directory.refresh()
        assert house.manager.directory.state().online
        known = house.manager.directory.queues.directory.all_known(objects.Queue)
        # What was begun came to its end, and is told; what waited behind it was not begun.
        assert {one.pathname for one in known} == {"ALPHA\\first", "ALPHA\\a"}
        assert (await house.create("ALPHA\\b")).error is None

    follow(tmp_path / "directory.toml", play)


def test_an_operator_does_not_wait_for_ever(tmp_path: Path) -> None:
    async def play(house: Followed) -> None:
        house.fall_silent()
        await house.directory.refresh()
        assert not house.manager.directory.state().online

    follow(tmp_path / "directory.toml", play)
