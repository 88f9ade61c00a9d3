"""Addresses that a machine gets while the queue manager runs, as from DHCP or a VPN.

They are its own once somebody has reached it there. All of 127.0.0.0/8 is on the loopback of Linux.
"""

from __future__ import annotations

import asyncio

import pytest

from fuzz.scanner_probes import STRANGER
from posthouse.model.message import Message, MessageId
from posthouse.model.names import parse_name
from posthouse.wire.packet.message import serialize
from tests.protocols.binary.socket_rig import serving
from tests.support.loop_server import on_loop, until
from tests.support.stranger_socket import Stranger

LATER = "127.0.0.9"


def message_to(address: str, ordinal: int = 1) -> bytes:
    return serialize(
        Message(
            body=b"one",
            identifier=MessageId(STRANGER, ordinal),
            source_machine_identifier=STRANGER,
            time_to_reach_queue=0xFFFFFFFF,
            destination_queue_format_name=rf"DIRECT=TCP:{address}\private$\orders",
        )
    )


@on_loop
async def test_a_message_to_an_address_that_came_later_is_for_this_machine() -> None:
    async with serving("BETA", "0.0.0.0") as beta:
        await beta.create("orders")
        registry = beta.manager.queues
        later = parse_name(rf"DIRECT=TCP:{LATER}\private$\orders")
        assert registry.find_local(later) is None
        guest = Stranger(*await asyncio.open_connection(LATER, beta.port))
        await guest.open()
        guest.writer.write(message_to(LATER))
        await until(lambda: beta.count("orders") == 1)
        assert registry.find_local(later) is not None
        guest.close()


@on_loop
async def test_other_addresses_stay_those_of_others() -> None:
    async with serving("BETA", "0.0.0.0") as beta:
        await beta.create("orders")
        guest = await Stranger.connect(beta)
        await guest.open()
        guest.writer.write(message_to(LATER) + message_to("127.0.0.1", 2))
        await until(lambda: beta.count("orders") == 1)
        assert not beta.manager.queues.collection.is_own(LATER, None)
        guest.close()


@pytest.mark.parametrize("text", ["", "fe80::1%eth0", "127.0.0.1"])
def test_what_is_noted_is_an_address(text: str) -> None:
    async def run() -> None:
        async with serving("BETA") as beta:
            before = beta.manager.ledger.rights_version
            beta.manager.queues.add_own_address(text)
            beta.manager.queues.add_own_address(text)
            noted = beta.manager.ledger.rights_version - before
            assert noted == (1 if text.startswith("fe80") else 0)

    asyncio.run(run())
