"""A directory of many objects, which a queue manager takes in bit by bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from posthouse.directory import objects
from posthouse.directory.mirror import Action, Order
from posthouse.engine.manager import QueueManager
from posthouse.model.names import parse_format_name
from posthouse.model.properties import QueueProperties
from tests.runtime.sharing import SharingRig, file_of

SITES = [objects.Site(identifier=bytes([65 + n]) * 16, name=f"Site{n}") for n in range(7)]
PORTION = 2


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return file_of(tmp_path / "directory.toml", *SITES)


@pytest.fixture
def rig(path: Path) -> SharingRig:
    return SharingRig(path, portion=PORTION)


def known(rig: SharingRig) -> set[str]:
    return {one.name for one in rig.manager.directory.queues.directory.all_known(objects.Site)}


class Watched(SharingRig):
    """Notes what there is between the portions."""

    def __init__(self, path: Path, **settings: Any) -> None:
        self.seen: list[tuple[int, bool]] = []
        super().__init__(path, portion=PORTION, **settings)

    def _post(self, call: Any, back: Any) -> None:
        super()._post(call, back)
        self.seen.append((len(known(self)), self.manager.directory.state().online))


def test_calls_are_made_between_the_portions_and_nothing_counts_before_the_last(
    path: Path,
) -> None:
    rig = Watched(path)
    rig.feed.refreshed()
    portions = [(0, False), (2, False), (4, False), (6, False), (7, True)]
    assert rig.seen[: len(portions)] == portions
    assert rig.manager.directory.state().online
    turns = rig.turns
    assert rig.refresh()
    assert rig.turns == turns + 1  # few changes come at once


def test_what_is_gone_goes_with_the_last_portion(rig: SharingRig, path: Path) -> None:
    assert rig.refresh()
    rig.change(
        *(Order(Action.DELETE, one, 1) for one in SITES[:3]),
        *(
            Order(Action.CREATE, objects.Site(identifier=bytes([97 + n]) * 16, name=f"New{n}"), 1)
            for n in range(5)
        ),
    )
    assert rig.refresh()
    assert known(rig) == {"Site3", "Site4", "Site5", "Site6", *(f"New{n}" for n in range(5))}
    rig.manager.directory.begin_again()
    rig.feed._token = ""  # a listing of everything
    assert rig.refresh()
    assert len(known(rig)) == 9


def test_a_name_may_go_from_one_object_to_another(rig: SharingRig) -> None:
    assert rig.refresh()
    heirs = [objects.Site(identifier=bytes([97 + n]) * 16, name=f"Site{n}") for n in range(5)]
    rig.change(
        *(Order(Action.DELETE, one, 1) for one in SITES[:5]),
        *(Order(Action.CREATE, one, 1) for one in heirs),
    )
    assert rig.refresh()
    for heir in heirs:
        found = rig.manager.directory.changes._named("site", heir.name)
        assert found.identifier == heir.identifier


def test_own_queues_follow_from_whatever_portion(rig: SharingRig, path: Path) -> None:
    assert rig.refresh()
    owner = rig.manager.machine.identifier
    made = [
        objects.Queue(
            identifier=bytes([97 + n]) * 16,
            pathname=f"ALPHA\\q{n}",
            queue_manager_identifier=owner,
        )
        for n in range(5)
    ]
    rig.change(*(Order(Action.CREATE, one, 1) for one in made))
    assert rig.refresh()
    for one in made:
        name = parse_format_name(f"DIRECT=OS:{one.pathname}")
        assert rig.manager.queues.find_local(name) is not None
    rig.change(
        *(
            Order(Action.WRITE, msgspec.structs.replace(one, label="now"), 2, frozenset({"label"}))
            for one in made
        )
    )
    assert rig.refresh()
    for one in made:
        queue = rig.manager.queues.find_local(parse_format_name(f"DIRECT=OS:{one.pathname}"))
        assert queue is not None
        assert queue.definition.label == "now"


def test_what_the_first_portions_say_of_our_surroundings_counts(rig: SharingRig) -> None:
    """The last one says nothing new."""
    assert rig.refresh()
    (own,) = rig.manager.directory.queues.directory.all_known(objects.QueueManager)
    home = SITES[0]
    ours = msgspec.structs.replace(own, site_identifier_list=(home.identifier,))
    rig.change(Order(Action.WRITE, ours, 1, frozenset({"site_identifier_list"})))
    assert rig.refresh()
    assert [one.name for one in rig.manager.directory.service.sites.values()] == [home.name]
    rig.change(Order(Action.WRITE, msgspec.structs.replace(home, name="Home"), 1))
    rig.feed._token = ""  # a listing of everything
    assert rig.refresh()
    assert [one.name for one in rig.manager.directory.service.sites.values()] == ["Home"]


def test_an_authority_that_lost_us_is_not_even_taken_in_by_half(
    rig: SharingRig, path: Path
) -> None:
    assert rig.refresh()
    others = [objects.Site(identifier=bytes([97 + n]) * 16, name=f"Else{n}") for n in range(7)]
    file_of(path, *others)
    rig.refresh()
    assert not rig.manager.directory.state().online
    assert known(rig) == {one.name for one in SITES}


def test_what_was_read_before_a_change_of_our_own_is_read_again(path: Path) -> None:
    """The change comes between two portions of a listing that does not know of it."""

    class Crossing(SharingRig):
        crossings = 0

        def _post(self, call: Any, back: Any) -> None:
            super()._post(call, back)
            if self.crossings == self.turns:
                self.run(create)

    def create(manager: QueueManager) -> object:
        return manager.queues.create_queue("ALPHA\\orders", QueueProperties(), rig.admin)

    rig = Crossing(path, portion=PORTION)
    assert rig.refresh()
    file_of_more = [objects.Site(identifier=bytes([97 + n]) * 16, name=f"M{n}") for n in range(5)]
    rig.change(*(Order(Action.CREATE, one, 1) for one in file_of_more))
    rig.crossings = rig.turns + 2
    assert rig.refresh()
    name = parse_format_name("DIRECT=OS:ALPHA\\orders")
    assert rig.manager.queues.find_local(name) is not None
    assert rig.refresh()
    assert rig.manager.queues.find_local(name) is not None
    assert len(known(rig)) == 12
