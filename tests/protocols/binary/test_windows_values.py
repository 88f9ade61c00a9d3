"""Handshake and timers as Windows has them: the notes of [MS-MQQB] section 6, one by one.

Each value is taken from the text of the note, and compared with the default of the setting.
"""

from __future__ import annotations

import pytest

from posthouse.engine.settings import QueueManagerSettings
from posthouse.protocols.binary.order_acks import OrderAckTimers
from posthouse.protocols.binary.settings import BinarySettings, PingSettings
from posthouse.security.settings import MessageSecuritySettings
from posthouse.wire.binary.internal import (
    CONNECTION_PARAMETERS_SIZE,
    ESTABLISH_CONNECTION_SIZE,
    connection_parameters,
    establish_connection,
    establish_connection_response,
    read_connection_parameters,
    read_establish_connection,
)

BINARY, PING, MESSAGES = BinarySettings(), PingSettings(), MessageSecuritySettings()
SLOW = BinarySettings(round_trip_ms=700)
MACHINE = QueueManagerSettings()
MINUTE = 60_000
GUID, OTHER = bytes(range(16)), bytes(range(16, 32))

NOTES = {
    "1: SHA-512 is the hash of Windows 7 and later": (MESSAGES.hash_algorithm, "sha512"),
    "3, 41, 56: no pings before a session since Vista": (PING.first, False),
    "24: resend timers": (
        BINARY.resend_ms,
        (*[30_000] * 3, *[5 * MINUTE] * 3, *[30 * MINUTE] * 3, 360 * MINUTE),
    ),
    "25: RemoveDuplicateSize": (BINARY.message_history_max, 10_000),
    "28: PermitInsecureNacks": (MACHINE.send_insecure_nacks, False),
    "43: session initialization": (BINARY.initialization_timer_ms, MINUTE),
    "43: plus two RoundTripDelays": (SLOW.initialization_timer_ms, MINUTE + 1_400),
    "44: session cleanup": (BINARY.cleanup_ms, 300_000),
    "44: of a routing server": (BINARY.cleanup_routing_ms, 120_000),
    "45: TryConnectInterval": (BINARY.first_retry_ms, 5_000),
    "45: plus RoundTripDelay": (SLOW.first_retry_ms, 5_700),
    "46: QosCleanupIntervalMultiplier": (BINARY.ack_wait_direct_factor, 2),
    "47: RemoveDuplicateCleanup": (BINARY.message_history_s, 30 * 60),
    "51: acknowledgment time": (BINARY.ack_wait_timeout_ms, 20_000),
    "51: plus RoundTripDelay": (SLOW.ack_wait_timeout_ms, 20_700),
    "52: SeqMaxAckDelay": (BINARY.order_ack_max_ms, 10_000),
}


@pytest.mark.parametrize("note", NOTES)
def test_the_default_is_that_of_windows(note: str) -> None:
    ours, windows = NOTES[note]
    assert ours == windows


def test_the_window_is_four_times_that_of_windows() -> None:
    """Notes 36 and 50, MaxUnackedPacket: a recommendation that decision 28 does not follow."""
    assert BINARY.window == 4 * 64


def test_an_order_acknowledgment_waits_no_longer_than_seq_max_ack_delay() -> None:
    """Note 52, on the timers that the session uses."""
    timers, sequence, now = OrderAckTimers(BINARY), (1, GUID), 0
    while not timers.due(now):
        timers.touched("session", [sequence], now)
        now += 100
    assert 10_000 <= now <= 10_000 + BINARY.order_ack_ms + 100


def test_a_session_begins_as_windows_begins_it() -> None:
    """Check 6 of the facts: RE is 0x10, SE 1 without a ping, QS 0, 572 bytes with 512 x 0x5A."""
    packet = establish_connection(GUID, OTHER, time_stamp=7)
    assert len(packet) == ESTABLISH_CONNECTION_SIZE == 572
    assert packet[-512:] == b"\x5a" * 512
    system = read_establish_connection(packet).header.operating_system
    assert int(system) & 0xFF == 0x10
    assert (system.session, system.quality_of_service) == (1, 0)


@pytest.mark.parametrize("word", [0x0310, 0x0110, 0x0710, 0x0010, 0xFFFF, 0])
def test_reserved_bits_and_garbage_of_windows_are_taken(word: int) -> None:
    """Notes 13 to 15, 17 and 19: unused fields may hold anything."""
    packet = bytearray(establish_connection(GUID, OTHER, time_stamp=7))
    at = 16 + 4 + 16 + 16 + 4
    packet[at : at + 2] = word.to_bytes(2, "little")
    packet[at + 2 : at + 4] = b"\xab\xcd"
    packet[-512:] = bytes(range(256)) * 2
    read = read_establish_connection(bytes(packet))
    assert (read.header.client_guid, read.header.server_guid) == (GUID, OTHER)
    assert not read.refused
    answer = establish_connection_response(read, OTHER)
    assert answer[-512:] in (b"\x5a" * 512, bytes(packet[-512:]))


def test_the_parameters_offer_windows_values() -> None:
    packet = connection_parameters(BINARY.recoverable_ack_min_ms, BINARY.ack_wait_timeout_ms, 64)
    assert len(packet) == CONNECTION_PARAMETERS_SIZE == 32
    header = read_connection_parameters(packet).header
    assert (header.ack_timeout, header.window_size, header.reserved) == (20_000, 64, 0)
