"""A directory that does not take a queue manager in, or not all of its queues."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from posthouse.directory import objects
from posthouse.directory.authority import AuthorityAway, Refused
from posthouse.directory.base import DirectoryOperationResult
from posthouse.directory.mirror import Action, Order, Stored
from posthouse.engine.queues.queue import Queue
from posthouse.model.properties import QueueProperties
from posthouse.runtime.directory.file import FileAuthority
from tests.engine.settings import changed
from tests.runtime.sharing import SharingRig, file_of

ORDERS = "ALPHA\\orders"
BILLS = "ALPHA\\bills"


class Choosy(FileAuthority):
    """A file that some things cannot be entered in."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, lambda: b"n" * 16)
        self.unwanted: set[str] = set()
        self.away = False
        self.asked: list[str] = []

    def together(self, orders: list[Order]) -> Stored:  # type: ignore[override]
        for order in orders:
            name = order.value.unique_name
            self.asked.append(name)
            if self.away:
                raise AuthorityAway("it does not answer")
            if order.action is Action.CREATE and name in self.unwanted:
                raise Refused(DirectoryOperationResult.GENERIC_ERROR, "we may not enter that")
        return super().together(orders)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SharingRig]:
    """ALPHA has had two public queues for a while, and names a file from now on."""
    path = file_of(tmp_path / "directory.toml")
    made = SharingRig(path)
    made.settings = changed(made.settings, directory_file="")
    made.restart()
    for name in (ORDERS, BILLS):
        made.run(lambda m, name=name: m.queues.create_queue(name, QueueProperties(), made.admin))
    made.settings = changed(made.settings, directory_file=str(path))
    made.authority = Choosy(path)
    made.restart()
    yield made
    assert {found(made, name).definition.pathname for name in (ORDERS, BILLS)} == {ORDERS, BILLS}


def found(rig: SharingRig, name: str) -> Queue:
    return rig.manager.queues.queue_properties(name, rig.admin)


def reason(rig: SharingRig, name: str) -> str:
    return rig.manager.directory.mirroring.reason_of(found(rig, name))


def told(rig: SharingRig, *names: str) -> list[str]:
    return [event.name for event in rig.events if event.name in names]


def choosy(rig: SharingRig, *names: str) -> Choosy:
    assert isinstance(rig.authority, Choosy)
    rig.authority.unwanted = set(names)
    return rig.authority


def entered(rig: SharingRig) -> set[str]:
    return {one.unique_name for one in rig.authority.changes("").objects}


@pytest.mark.parametrize("restarted", [False, True])
def test_a_queue_that_the_directory_does_not_take_in_stays(
    rig: SharingRig, restarted: bool
) -> None:
    authority = choosy(rig, ORDERS.casefold())
    for _ in range(3):
        assert rig.refresh()
    if restarted:
        rig.restart()
        for _ in range(3):
            assert rig.refresh()
    assert entered(rig) == {"alpha", BILLS.casefold()}
    assert rig.manager.directory.state().online
    assert "we may not enter that" in reason(rig, ORDERS)
    assert "is deleted when it is empty" not in reason(rig, ORDERS)
    assert reason(rig, BILLS) == ""
    assert told(rig, "directory_refused") == ["directory_refused"] * (1 + restarted)
    authority.unwanted = set()
    assert rig.refresh()
    assert entered(rig) == {"alpha", ORDERS.casefold(), BILLS.casefold()}
    assert reason(rig, ORDERS) == ""
    rig.refresh()


def test_what_was_taken_in_and_is_gone_then_goes(rig: SharingRig, tmp_path: Path) -> None:
    """An operator deletes the queue that nobody wants; what is left follows the directory."""
    choosy(rig, ORDERS.casefold())
    assert rig.refresh()
    rig.run(lambda m: m.queues.delete_queue(ORDERS, rig.admin))
    assert rig.refresh()
    bills = found(rig, BILLS).definition.identifier
    rig.change(Order(Action.DELETE, objects.Queue(identifier=bills, pathname=BILLS), 1))
    assert rig.refresh()
    assert not [one for one in rig.manager.queues.all() if one.definition.pathname == BILLS]
    choosy(rig)
    for name in (ORDERS, BILLS):
        rig.run(lambda m, name=name: m.queues.create_queue(name, QueueProperties(), rig.admin))


def test_who_is_kept_out_enters_nothing_and_says_why_until_he_is_in(rig: SharingRig) -> None:
    """Queues would be entered for the other one of our name, who would make them."""
    authority = choosy(rig, "alpha")
    for _ in range(3):
        rig.refresh()
    state = rig.manager.directory.state()
    assert not state.online
    assert state.reason == "it does not take this queue manager in: we may not enter that"
    assert entered(rig) == set()
    assert set(authority.asked) == {"alpha"}
    assert "we may not enter that" in reason(rig, ORDERS)
    assert told(rig, "directory_away", "directory_online")[-1] == "directory_away"
    before = told(rig, "directory_away", "directory_online")
    assert len(before) <= 2
    authority.unwanted = set()
    rig.refresh()
    assert rig.manager.directory.state().online
    assert told(rig, "directory_away", "directory_online") == [*before, "directory_online"]
    assert entered(rig) == {"alpha", ORDERS.casefold(), BILLS.casefold()}


def test_who_does_not_answer_is_asked_once(rig: SharingRig) -> None:
    authority = choosy(rig)
    authority.away = True
    assert not rig.refresh()
    assert authority.asked == ["alpha"]
    authority.away = False
    assert rig.refresh()
    assert entered(rig) == {"alpha", ORDERS.casefold(), BILLS.casefold()}
