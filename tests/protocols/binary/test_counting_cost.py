"""What acknowledgments may cost that are meant to cost much."""

from __future__ import annotations

from posthouse.engine.transfer.protocol_interface import Outbound
from posthouse.protocols.binary.ack_window import SentCounts
from posthouse.wire.packet.headers import SessionHeader
from tests.engine.cost import steps


def cost_of_the_last(count: int) -> int:
    """Messages that went out one by one, of which only the last is acknowledged."""
    sent: SentCounts[str] = SentCounts()
    for number in range(1, count + 1):
        sent.note("queue", [Outbound(number, b"", True, False)])
    header = SessionHeader(count, count, 1, 0, 0, 1)
    cost = steps(lambda: sent.acknowledge(header))
    assert sent.in_flight == count - 1
    return cost


def test_an_acknowledgment_costs_no_more_if_many_are_in_flight() -> None:
    assert cost_of_the_last(10_000) == cost_of_the_last(100)
