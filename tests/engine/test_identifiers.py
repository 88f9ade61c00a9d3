"""Identifiers of messages: never twice, over restarts and when they wrap."""

from __future__ import annotations

import pytest

from posthouse.engine.ledger.ledger import OrdinalCounter
from posthouse.model.message import (
    MessageId,
)
from tests.engine.rig import Rig
from tests.engine.sends import PEER, arrives, packet_of


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.create("orders")
    return rig


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/2", "MS-MQQB 3.1.1.3/8", "MS-MQQB 3.1.1.3/9")
def test_message_identifiers_never_come_twice_over_restarts(rig: Rig) -> None:
    seen: list[MessageId] = []
    for round_ in range(4):
        seen += [rig.send("orders", bytes([round_, n]), recoverable=bool(n)) for n in range(3)]
        rig.restart()
    ordinals = [identifier.ordinal for identifier in seen]
    assert ordinals[:3] == [1, 2, 3]  # before the first message it is 0
    assert ordinals == sorted(set(ordinals))
    assert {identifier.guid for identifier in seen} == {rig.manager.machine.identifier}
    assert ordinals[-1] < 1 << 32


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/2", "MS-MQQB 3.1.1.3/8", "MS-MQQB 3.1.1.3/10")
def test_ordinals_wrap_past_zero_and_past_those_in_use(rig: Rig) -> None:
    rig.send("orders")
    kept = [rig.send("orders", bytes([n])).ordinal for n in range(3)]
    rig.receive("orders")
    assert kept == [2, 3, 4]
    rig.run(lambda m: m.ledger.ordinals.skip_to((1 << 32) - 2))
    given = [rig.send("orders").ordinal for _ in range(4)]
    assert given == [0xFFFFFFFE, 0xFFFFFFFF, 1, 5]


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/2")
def test_ordinals_of_the_round_before_are_known_after_a_restart(rig: Rig) -> None:
    rig.run(lambda m: m.ledger.ordinals.skip_to((1 << 32) + 4096))
    used = [rig.send("orders").ordinal for _ in range(3)]
    rig.run(lambda m: m.ledger.ordinals.skip_to((2 << 32) + used[0]))
    rig.restart()
    counter = rig.manager.ledger.ordinals
    assert isinstance(counter, OrdinalCounter)
    assert counter.value >= (2 << 32) + used[0]
    rig.run(lambda m: m.ledger.ordinals.skip_to((3 << 32) + used[0]))
    assert rig.send("orders").ordinal == used[-1] + 1


def test_an_ordinal_of_an_open_transaction_is_in_use(rig: Rig) -> None:
    rig.create("strict", transactional=True)
    tx = rig.begin()
    taken = rig.send("strict", tx=tx).ordinal
    rig.run(lambda m: m.ledger.ordinals.skip_to((1 << 32) + taken))
    assert rig.send("orders").ordinal == taken + 1


def test_a_peers_ordinal_is_no_obstacle_to_ours(rig: Rig) -> None:
    packet = packet_of(source_machine_identifier=PEER, identifier=MessageId(PEER, 7))
    arrives(rig, rig.queue("orders"), packet)
    rig.run(lambda m: m.ledger.ordinals.skip_to((1 << 32) + 7))
    assert rig.send("orders").ordinal == 7


def test_lookup_identifiers_and_numbers_only_grow_over_restarts(rig: Rig) -> None:
    rows: list[tuple[int, int]] = []
    for _ in range(3):
        rig.send("orders")
        rig.send("orders", recoverable=False)
        rows.extend((read.lookup_id, read.number) for read in rig.reads("orders"))
        rig.receive("orders")
        rig.receive("orders")
        rig.restart()
    assert rows == sorted(rows)
    assert len({number for _, number in rows}) == len({lookup for lookup, _ in rows}) == 6
