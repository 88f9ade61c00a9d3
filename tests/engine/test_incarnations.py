"""Incarnations: which start gave a lookup identifier, over crashes, copies and restored homes."""

from __future__ import annotations

import pytest

from posthouse.engine.ledger import incarnations as module
from posthouse.engine.ledger.records import TABLE_INCARNATION
from posthouse.model.errors import MessageAlreadyReceived
from tests.engine.rig import EXPRESS_DELIVERY, Rig


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.create("q")
    return rig


def given(rig: Rig, count: int = 1, **attributes: object) -> list[int]:
    """Identifiers of new messages."""
    before = set(ids(rig))
    for _ in range(count):
        rig.send("q", b"x", **attributes)
    return sorted(set(ids(rig)) - before)


def ids(rig: Rig) -> list[int]:
    return [place.lookup_id for place, _ in rig.queue("q").state.order.forward()]


def names(rig: Rig) -> list[str]:
    return [
        value.hex() for _, value in sorted(rig.manager.ledger.state.of_table(TABLE_INCARNATION))
    ]


def put_back(rig: Rig, copy: list[object]) -> None:
    """The home is replaced by a copy of it."""
    rig.restart(copy)


def test_each_start_that_gives_identifiers_has_a_name(rig: Rig) -> None:
    (first,) = given(rig)
    rig.restart()
    (second,) = given(rig)
    starts = rig.manager.machine.incarnations
    assert len({starts.of(first), starts.of(second)}) == 2
    assert starts.end_of(starts.of(first)) == second - 1
    assert starts.end_of(starts.of(second)) == starts.last_id() == second


def test_the_names_survive_starts(rig: Rig) -> None:
    (first,) = given(rig)
    name = rig.manager.machine.incarnation_of(first)
    for _ in range(5):
        rig.restart()
    assert rig.manager.machine.incarnation_of(first) == name


def test_starts_that_gave_nothing_are_not_kept(rig: Rig) -> None:
    given(rig)
    for _ in range(5):
        rig.restart()
    assert len(names(rig)) == 2
    assert names(rig)[-1] == rig.manager.machine.incarnation_of(
        rig.manager.machine.last_lookup_id() + 1
    )


def test_the_list_is_bounded(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_MAX", 4)
    first = given(rig)[0]
    name = rig.manager.machine.incarnation_of(first)
    for _ in range(9):
        rig.restart()
        given(rig)
    assert len(names(rig)) == 4
    assert rig.manager.machine.end_of_incarnation(name) is None
    assert rig.manager.machine.incarnation_of(first) == ""


def test_a_home_that_was_put_back_does_not_have_the_later_name(rig: Rig) -> None:
    """It gives the same identifiers again, to other messages."""
    given(rig, 3)
    copy = list(rig.store.log)
    rig.restart()
    lost = given(rig, 3)
    name = rig.manager.machine.incarnation_of(lost[-1])
    put_back(rig, copy)
    assert given(rig, 3) == lost
    assert rig.manager.machine.end_of_incarnation(name) is None
    with pytest.raises(MessageAlreadyReceived, match="put back"):
        rig.manager.machine.check_incarnation(name, lost[-1])


def test_a_home_put_back_within_a_start_does_not_have_its_later_identifiers(rig: Rig) -> None:
    """The copy has the start's name, and fewer of its blocks of identifiers."""
    rig.manager.ledger.lookup_ids.block = 4
    given(rig)
    copy = list(rig.store.log)
    last = given(rig, 9)[-1]
    name = rig.manager.machine.incarnation_of(last)
    put_back(rig, copy)
    end = rig.manager.machine.end_of_incarnation(name)
    assert end is not None
    assert end < last
    with pytest.raises(MessageAlreadyReceived, match="put back"):
        rig.manager.machine.check_incarnation(name, last)


@pytest.mark.parametrize("express", [False, True])
def test_no_crash_takes_back_an_identifier_that_was_shown(express: bool, rig: Rig) -> None:
    """Else an ordinary crash would look like a loss: express messages go, their ids do not."""
    rig.manager.ledger.lookup_ids.block = 4
    how = {"delivery_guarantee": EXPRESS_DELIVERY} if express else {}
    for _ in range(6):
        shown = given(rig, 5, **how)[-1]
        name = rig.manager.machine.incarnation_of(shown)
        rig.restart()
        rig.manager.ledger.lookup_ids.block = 4
        rig.manager.machine.check_incarnation(name, shown)
        assert given(rig)[0] > shown


def test_a_home_without_names_gets_them_from_its_next_start_on(rig: Rig) -> None:
    """As version 0.1 left it."""
    (old,) = given(rig)
    for key, _ in list(rig.manager.ledger.state.of_table(TABLE_INCARNATION)):
        rig.manager.ledger.define(TABLE_INCARNATION, key, None)
    rig.turn()
    rig.restart()
    starts = rig.manager.machine.incarnations
    assert starts.of(old) == ""
    assert starts.end_of("") == starts.last_id()
    assert starts.of(given(rig)[0]) != ""
