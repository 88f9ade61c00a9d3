"""The transmit window."""

from __future__ import annotations

import pytest

from posthouse.protocols.pgm.transmit_window import PACKET_COST, Kept, Sent, TransmitWindow
from posthouse.wire.pgm.options import NO_OPTIONS
from posthouse.wire.pgm.packets import follow

FIRST = 0xFFFF_FFFE


def window(*times_ms: int) -> TransmitWindow:
    made = TransmitWindow(FIRST, Kept(1 << 20), 1 << 20)
    for at_ms in times_ms:
        made.add(Sent(at_ms, b"x" * 10, NO_OPTIONS))
    return made


@pytest.mark.spec("PGM/18", "PGM/19")
def test_numbers_go_on_over_the_end_of_their_range() -> None:
    empty = window()
    assert (empty.trailing, empty.leading, empty.next_sequence) == (FIRST, FIRST - 1, FIRST)
    full = window(1, 2, 3)
    assert (full.trailing, full.leading, full.next_sequence) == (FIRST, 0, 1)
    assert [full.get(follow(FIRST, n)) is not None for n in range(-1, 4)] == [
        *(False, True, True, True, False)
    ]


@pytest.mark.spec("PGM/20")
def test_what_is_old_falls_out_and_nothing_else() -> None:
    made = window(100, 200, 300)
    assert made.bytes == 3 * (10 + PACKET_COST)
    assert made.advance(200, None) == 1
    assert (made.trailing, made.leading, len(made)) == (follow(FIRST), 0, 2)
    assert made.get(FIRST) is None
    assert made.bytes == 2 * (10 + PACKET_COST)
    assert made.advance(1_000, None) == 2
    assert (made.trailing, made.leading, made.bytes) == (1, 0, 0)


@pytest.mark.spec("MC-MQSRM 2.1.3.1/14")
def test_it_stops_in_front_of_a_number_that_is_asked_for() -> None:
    made = window(100, 200, 300)
    assert made.advance(1_000, follow(FIRST, 1)) == 1
    assert made.trailing == follow(FIRST)
    assert made.advance(1_000, FIRST) == 2  # that one is gone already


def test_all_windows_together_have_a_limit() -> None:
    kept = Kept(3 * (10 + PACKET_COST))
    one, other = (TransmitWindow(FIRST, kept, 1 << 20) for _ in range(2))
    packet = Sent(1, b"x" * 10, NO_OPTIONS)
    one.add(packet)
    one.add(packet)
    assert not other.is_full
    other.add(packet)
    assert one.is_full
    assert other.is_full
    one.clear()
    assert (len(one), one.bytes, kept.bytes) == (0, 0, 10 + PACKET_COST)
    assert not other.is_full
