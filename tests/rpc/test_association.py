"""Groups, their handles and their end."""

from collections.abc import Callable

import pytest
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from posthouse.rpc import statuses
from posthouse.rpc.association import HANDLE_SIZE, Association, AssociationGroups
from posthouse.rpc.security import Identity
from posthouse.rpc.statuses import Fault

ANN, BOB = Identity("ann", "D", "ntlm"), Identity("bob", "D", "ntlm")


class Numbers:
    """Bytes that are different each time, and the same in each run."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, size: int) -> bytes:
        self.count += 1
        return self.count.to_bytes(size, "little")


def new_groups(handles_max: int = 100) -> AssociationGroups:
    return AssociationGroups(Numbers(), handles_max)


def begin(groups: AssociationGroups, group_id: int = 0, address: str = "::1") -> Association:
    association = groups.join(group_id, address)
    assert association is not None
    return association


def nothing() -> None:
    """Runs nothing down."""


@pytest.mark.spec("RPC/15")
def test_handle_is_good_on_every_connection_of_its_group_and_nowhere_else() -> None:
    groups = new_groups()
    first = begin(groups)
    second, stranger = begin(groups, first.group.group_id), begin(groups)
    handle = first.group.open("queue", nothing)
    assert len(handle) == HANDLE_SIZE
    assert handle[:4] == bytes(4)
    assert second.group.find(handle) == "queue"
    assert stranger.group.find(handle) is None


def test_handle_is_good_for_who_opened_it_alone() -> None:
    group = begin(new_groups()).group
    handle = group.open("queue", nothing, ANN)
    assert group.find(handle, ANN) == "queue"
    assert group.find(handle, BOB) is None
    assert group.find(handle) is None


@pytest.mark.spec("RPC/16")
def test_handles_are_run_down_when_the_last_connection_has_gone() -> None:
    groups = new_groups()
    first = begin(groups)
    second = begin(groups, first.group.group_id)
    ended: list[str] = []
    first.group.open("a", lambda: ended.append("a"))
    first.group.open("b", lambda: ended.append("b"))
    first.end()
    assert ended == []
    second.end()
    assert sorted(ended) == ["a", "b"]
    assert len(groups) == 0


def test_closed_handle_is_not_run_down() -> None:
    association = begin(new_groups())
    ended: list[str] = []
    handle = association.group.open("a", lambda: ended.append("a"))
    association.group.close(handle)
    association.group.close(handle)
    assert association.group.find(handle) is None
    association.end()
    assert ended == []


def test_one_rundown_that_fails_does_not_stop_the_others() -> None:
    association = begin(new_groups())
    ended: list[str] = []

    def fail() -> None:
        raise ValueError("no")

    association.group.open("a", lambda: ended.append("a"))
    association.group.open("b", fail)
    association.group.open("c", lambda: ended.append("c"))
    with pytest.raises(ExceptionGroup):
        association.end()
    assert sorted(ended) == ["a", "c"]


def test_rundown_may_close_other_handles() -> None:
    association = begin(new_groups())
    group = association.group
    ended: list[str] = []
    cursor = group.open("cursor", lambda: ended.append("cursor"))

    def end_queue() -> None:
        ended.append("queue")
        group.close(cursor)

    group.open("queue", end_queue)
    association.end()
    assert ended == ["queue"]


def test_unknown_group_and_group_of_another_address_are_refused() -> None:
    groups = new_groups()
    group_id = begin(groups, address="10.0.0.1").group.group_id
    assert groups.join(group_id + 1, "10.0.0.1") is None
    assert groups.join(group_id, "10.0.0.2") is None


def test_group_that_has_ended_cannot_be_joined() -> None:
    groups = new_groups()
    association = begin(groups)
    association.end()
    assert groups.join(association.group.group_id, "::1") is None


def test_group_number_is_never_zero_nor_taken() -> None:
    numbers = iter([bytes(4), b"\1\0\0\0", b"\1\0\0\0", b"\2\0\0\0"])
    groups = AssociationGroups(lambda size: next(numbers))
    assert [begin(groups).group.group_id for _ in range(2)] == [1, 2]


def test_handles_of_a_group_are_limited() -> None:
    groups = new_groups(handles_max=2)
    group = begin(groups).group
    handle = group.open(1, nothing)
    group.open(2, nothing)
    with pytest.raises(Fault) as caught:
        group.open(3, nothing)
    assert caught.value.status == statuses.OUT_OF_MEMORY
    group.close(handle)
    group.open(3, nothing)
    assert groups.handles == 2


class Machine(RuleBasedStateMachine):
    """Any order of connections, handles and ends: each value ends once, closed or run down."""

    associations = Bundle("associations")
    handles = Bundle("handles")

    def __init__(self) -> None:
        super().__init__()
        self.groups = new_groups()
        self.ended: list[int] = []
        self.living: dict[int, tuple[object, bytes]] = {}
        self.opened = 0

    @rule(target=associations)
    def begin(self) -> Association:
        return begin(self.groups)

    @rule(target=associations, other=associations)
    def join(self, other: Association) -> Association:
        return begin(self.groups, other.group.group_id)

    @rule(target=handles, association=associations)
    def open(self, association: Association) -> tuple[Association, int, bytes]:
        self.opened += 1
        number = self.opened
        handle = association.group.open(number, self.ender(number))
        self.living[number] = (association.group, handle)
        return association, number, handle

    def ender(self, number: int) -> Callable[[], None]:
        def end() -> None:
            del self.living[number]
            self.ended.append(number)

        return end

    @rule(opened=consumes(handles))
    def close(self, opened: tuple[Association, int, bytes]) -> None:
        association, number, handle = opened
        association.group.close(handle)
        self.living.pop(number, None)

    @rule(association=consumes(associations))
    def end(self, association: Association) -> None:
        association.end()

    @invariant()
    def living_values_are_found_in_their_group_alone(self) -> None:
        assert len(set(self.ended)) == len(self.ended)
        assert self.groups.handles == len(self.living)
        for number, (group, handle) in self.living.items():
            assert [g.find(handle) for g in self.groups._groups.values()].count(number) == 1
            assert group in self.groups._groups.values()


TestMachine = Machine.TestCase
