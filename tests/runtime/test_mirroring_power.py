"""The power fails at every operation of the disk while queues and their directory change.

The driver of the server, its log on a simulated disk, and the feed of a shared file: whatever a
crash leaves, after the next start queues and directory say the same, and no message is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Literal

import pytest

from posthouse.directory import objects
from posthouse.directory.mirror import Action, Order, carry_out
from posthouse.model.properties import QueueProperties
from posthouse.runtime.directory.feed import DirectoryFeed, need_now
from posthouse.runtime.directory.file import FileAuthority
from posthouse.sim import SimDisk
from posthouse.sim.faults import PowerLost
from tests.runtime.disk_home import Home
from tests.runtime.sharing import file_of

ORDERS, LETTERS = "ALPHA\\orders", "ALPHA\\letters"
Policy = Literal["nothing", "everything", "random"]


class SharedHome(Home):
    """ALPHA on a disk whose power fails; the file of the directory is on another one."""

    def __init__(self, path: Path) -> None:
        self.chance = Random(5)
        self.authority = FileAuthority(file_of(path), lambda: self.chance.randbytes(16))
        super().__init__(directory_file=str(path))

    def open_store(self) -> None:
        super().open_store()
        self.feed = DirectoryFeed(self.authority, self._post, refresh_s=1, away_s=1, patience_s=60)
        self.driver.on_need = need_now(self.driver, self.feed.ask_now)
        assert self.feed.refreshed()

    def _post(self, call: Any, back: Any) -> None:
        back(self.run(call))

    def power_fails(self, policy: Policy) -> None:
        assert isinstance(self.disk, SimDisk)
        self.disk = self.disk.crash(policy)
        self.authority = FileAuthority(self.authority.path, lambda: self.chance.randbytes(16))
        self.open_store()

    # -- what happens

    def make(self) -> None:
        self.run(lambda m: m.queues.create_queue(ORDERS, QueueProperties(label="new"), self.admin))
        self.send(b"kept", name=ORDERS)

    def change(self) -> None:
        """By us, and by somebody else who enters another queue of ours."""
        self.run(lambda m: m.queues.set_queue(ORDERS, self.admin, label="changed"))
        queue = objects.Queue(
            identifier=b"l" * 16,
            pathname=LETTERS,
            queue_manager_identifier=self.manager.machine.identifier,
        )
        other = FileAuthority(self.authority.path, lambda: b"o" * 16)
        if queue.identifier not in {one.identifier for one in self.entered()}:
            carry_out(other, [Order(Action.CREATE, queue, 1_700_000_000)])
        assert self.feed.refreshed()

    def unmake(self) -> None:
        self.run(lambda m: m.queues.delete_queue(LETTERS, self.admin))

    # -- what is there

    def entered(self) -> list[objects.Queue]:
        """Public queues of the file, as somebody else reads it."""
        values = FileAuthority(self.authority.path, lambda: b"").changes("").objects
        return [one for one in values if isinstance(one, objects.Queue)]

    def local(self) -> dict[str, tuple[bytes, str]]:
        return {
            queue.name: (queue.definition.identifier, queue.definition.label)
            for queue in self.manager.queues.all()
            if queue.name in (ORDERS, LETTERS)
        }

    def check(self) -> None:
        """Log, mirror and file agree."""
        entered = {one.pathname: (one.identifier, one.label) for one in self.entered()}
        mirrored = self.manager.directory.queues.directory.all_known(objects.Queue)
        assert {one.pathname: (one.identifier, one.label) for one in mirrored} == entered
        assert self.local() == entered
        self.check_books()

    def has_kept(self) -> bool:
        return ORDERS in self.local() and self.queue(ORDERS).state.count == 1


STEPS: list[Callable[[SharedHome], None]] = [SharedHome.make, SharedHome.change, SharedHome.unmake]


def homes(path: Path, step: int) -> Iterator[SharedHome]:
    """The same home again and again, ready for a step."""
    for number in range(1_000):
        home = SharedHome(path.with_name(f"{number}.toml"))
        for done in STEPS[:step]:
            done(home)
        yield home


@pytest.mark.parametrize("policy", ["nothing", "everything", "random"])
@pytest.mark.parametrize("step", range(len(STEPS)))
def test_queues_and_directory_agree_wherever_the_power_fails(
    tmp_path: Path, step: int, policy: Policy
) -> None:
    failed = 0
    for at, home in enumerate(homes(tmp_path / "x", step), 1):
        assert isinstance(home.disk, SimDisk)
        home.disk.lose_power_at(at)
        try:
            STEPS[step](home)
        except PowerLost:
            failed += 1
        else:
            home.check()
            break
        home.power_fails(policy)
        home.check()
        if step:
            assert home.has_kept()
        if step == 1 or LETTERS in home.local():
            STEPS[step](home)
            home.check()
    assert failed >= 2
