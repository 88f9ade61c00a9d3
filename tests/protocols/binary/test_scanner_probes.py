"""Scanners on port 1801, over real sockets: each probe is closed and counted, and no more.

The probes are the seeds of fuzz targets too: `fuzz/scanner_probes.py` has them.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from fuzz.scanner_probes import GREETINGS, MESSAGES, sample
from posthouse.protocols.binary.close_reasons import (
    MALFORMED,
    NOT_TAKEN,
    OTHER_PROTOCOL,
    OWN_GUID,
    SILENT,
    UNEXPECTED,
    WRONG_GUID,
)
from posthouse.protocols.binary.settings import BinarySettings
from tests.protocols.binary.socket_rig import Server, serving
from tests.support.loop_server import on_loop, until
from tests.support.stranger_socket import Stranger

SETTINGS = BinarySettings(initialization_ms=300, refusal_linger_ms=20)
REASONS = {
    "survey of MSMQ": WRONG_GUID,
    "survey that gives no GUID": OWN_GUID,
    "user message before the handshake": UNEXPECTED,
}


async def is_alive(server: Server) -> None:
    """Whether a session can still be opened, and brings a message."""
    before = server.count("orders")
    guest = await Stranger.connect(server)
    await guest.open()
    guest.writer.write(sample())
    await until(lambda: server.count("orders") == before + 1)
    guest.close()


@pytest.mark.parametrize("name", GREETINGS)
@on_loop
async def test_a_probe_is_closed_and_counted(name: str) -> None:
    async with serving("BETA", settings=SETTINGS) as beta:
        await beta.create("orders")
        scanner = await Stranger.connect(beta)
        scanner.writer.write(GREETINGS[name])
        with suppress(ConnectionError):
            await asyncio.wait_for(scanner.reader.read(), 10)  # to the end
        assert beta.protocol.refusals.total() == 1
        expected = SILENT if len(GREETINGS[name]) < 16 else MALFORMED
        assert list(beta.protocol.refusals) == [REASONS.get(name, expected)]
        await is_alive(beta)


@on_loop
async def test_malformed_messages_close_their_session_and_are_counted() -> None:
    async with serving("BETA", settings=SETTINGS) as beta:
        await beta.create("orders")
        for count, packet in enumerate(MESSAGES.values(), start=1):
            scanner = await Stranger.connect(beta)
            await scanner.open()
            scanner.writer.write(packet)
            assert await asyncio.wait_for(scanner.is_closed(), 10)
            assert beta.protocol.refusals.total() == count
        assert set(beta.protocol.refusals) <= {MALFORMED, NOT_TAKEN, OTHER_PROTOCOL}
        assert beta.count("orders") == 0
        await is_alive(beta)
