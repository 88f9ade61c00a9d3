"""Messages from sections; what comes over a connection is tried in test_remote_reader.py."""

from __future__ import annotations

import tracemalloc

import pytest

from posthouse.client.remote_messages import SECTIONS_SIZE_MAX, rebuilt
from posthouse.model.errors import RemoteProtocolError
from posthouse.protocols.remote_read.stubs import Received, Section, SectionType
from tests.client.read_peer import packet


def test_no_room_is_made_for_more_than_a_message_can_have() -> None:
    front = Section(SectionType.BINARY_FIRST_SECTION, SECTIONS_SIZE_MAX + 1, packet(b"some"))
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match="lacks"):
            rebuilt(Received(1, 100, (front,), 0), "orders")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
