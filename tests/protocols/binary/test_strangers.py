"""A stranger at another address, on real sockets: findings F1, F2, F3 and F15."""

from __future__ import annotations

import asyncio

import pytest

from posthouse.model.guids import NULL_GUID
from posthouse.model.message import DeliveryGuarantee, Message, MessageId, TxSequenceId
from posthouse.sim.stranger_trial import StrangerRoutedTrial
from posthouse.wire.binary.internal import (
    CONNECTION_PARAMETERS_SIZE,
    ESTABLISH_CONNECTION_SIZE,
    connection_parameters,
    establish_connection,
    read_establish_connection,
)
from posthouse.wire.packet.message import serialize
from tests.conftest import Dose
from tests.protocols.binary.socket_rig import Server, serving
from tests.support.loop_server import clock, on_loop, until

ELSEWHERE = "127.0.0.9"
STRANGER = b"stranger's GUID!"
REAL = [b"real %d" % n for n in range(5)]


class Stranger:
    """Somebody with an address of their own, who knows all there is to know of ALPHA."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, server: Server) -> Stranger:
        address = (ELSEWHERE, 0)
        return cls(*await asyncio.open_connection("127.0.0.1", server.port, local_addr=address))

    async def is_refused(self, guid: bytes) -> bool:
        """Whether a session under a GUID is refused; if not, it is open afterwards."""
        self.writer.write(establish_connection(guid, time_stamp=1))
        answer = await self.reader.readexactly(ESTABLISH_CONNECTION_SIZE)
        if read_establish_connection(answer).refused:
            return True
        self.writer.write(connection_parameters(500, 20_000, 64))
        await self.reader.readexactly(CONNECTION_PARAMETERS_SIZE)
        return False

    def close(self) -> None:
        self.writer.transport.abort()


def forged(
    source: bytes, to: str, ordinal: int, place: tuple[int, int, int] | None = None
) -> bytes:
    """A message in the name of a source: at a place of its sequence, or an express one."""
    message = Message(
        body=b"evil",
        identifier=MessageId(source, ordinal),
        source_machine_identifier=source,
        sent_time=clock()[1],
        destination_queue_format_name=to,
    )
    if place is not None:
        sequence_id, number, previous = place
        message.delivery_guarantee = DeliveryGuarantee.RECOVERABLE
        message.transaction_identifier = 1
        message.transactional_message_sequence_identifier = TxSequenceId(
            sequence_id >> 32, sequence_id & 0xFFFFFFFF
        )
        message.transaction_sequence_number = number
        message.transaction_previous_sequence_number = previous
    return serialize(message)


async def settled(alpha: Server, name: str) -> None:
    """ALPHA has heard of everything that it has sent."""
    await until(lambda: not alpha.outgoing(name).state.count)


@pytest.mark.parametrize("claims", [True, False])
@on_loop
async def test_one_message_stops_no_stream(claims: bool) -> None:
    """Finding F1: the highest number of the latest sequence, in the name of ALPHA."""
    async with serving("ALPHA") as alpha, serving("BETA") as beta:
        await beta.create("exact", transactional=True)
        name = rf"DIRECT=TCP:127.0.0.1:{beta.port}\private$\exact"
        guid = alpha.manager.machine.identifier
        stranger = await Stranger.connect(beta)
        assert not await stranger.is_refused(guid if claims else STRANGER)
        now = beta.manager.machine.utc
        for begun in (now + 3600, (1 << 32) - 1):
            place = begun << 32 | 0xFFFFFFFF, 0xFFFFFFFF, 0
            stranger.writer.write(forged(guid, name, 1, place))
        await until(lambda: beta.count("exact") == 1)
        await alpha.send_in_transaction(name, *REAL)
        await until(lambda: beta.count("exact") == 6)
        assert await beta.bodies("exact") == [b"evil", *REAL]
        await settled(alpha, name)
        assert beta.manager.machine.refusals["sequence_of_the_future"] == 1
        stranger.close()


@pytest.mark.parametrize("claims", [True, False])
@on_loop
async def test_nothing_is_eaten_in_a_sequence_that_is_known(claims: bool) -> None:
    """Finding F2, with the identifier that ALPHA uses next and a number that it gives out."""
    async with serving("ALPHA") as alpha, serving("BETA") as beta:
        await beta.create("exact", transactional=True)
        name = rf"DIRECT=TCP:127.0.0.1:{beta.port}\private$\exact"
        guid, sequences = (
            alpha.manager.machine.identifier,
            alpha.manager.transfer.outgoing.sequences,
        )
        await alpha.send_in_transaction(name, b"first")
        await settled(alpha, name)
        place = sequences.info(alpha.outgoing(name)).sequence_id, 1, 0
        stranger = await Stranger.connect(beta)
        assert not await stranger.is_refused(guid if claims else STRANGER)
        stranger.writer.write(forged(guid, name, 1, place))
        await until(lambda: beta.count("exact") == 2)
        await alpha.send_in_transaction(name, *REAL)
        assert sequences.info(alpha.outgoing(name)).sequence_id == place[0]
        await until(lambda: beta.count("exact") == 7)
        assert await beta.bodies("exact") == [b"first", b"evil", *REAL]
        await settled(alpha, name)
        assert beta.manager.machine.conflicts["sequence"] == 1
        stranger.close()


@on_loop
async def test_nothing_is_eaten_by_who_tries_every_sequence(dose: Dose) -> None:
    """Finding F2, blind: every second of the last while, and some ordinals."""
    async with serving("ALPHA") as alpha, serving("BETA") as beta:
        await beta.create("exact", transactional=True)
        name = rf"DIRECT=TCP:127.0.0.1:{beta.port}\private$\exact"
        guid, now = alpha.manager.machine.identifier, alpha.manager.machine.utc
        stranger = await Stranger.connect(beta)
        assert not await stranger.is_refused(guid)
        seconds, ordinals = dose(100, 3600), range(1, 4)
        tried = [(now - ago) << 32 | at for ago in range(seconds, -60, -1) for at in ordinals]
        for sequence_id in tried:
            stranger.writer.write(forged(guid, name, 1, (sequence_id, 1, 0)))
        await until(lambda: beta.count("exact") == len(tried))
        await alpha.send_in_transaction(name, *REAL)
        await until(lambda: beta.count("exact") == len(tried) + 5)
        bodies = await beta.bodies("exact")
        assert bodies[len(tried) :] == REAL
        await settled(alpha, name)
        stranger.close()


@on_loop
async def test_identifiers_of_another_suppress_nothing(dose: Dose) -> None:
    """Finding F3: express messages under the numbers that ALPHA gives out next."""
    async with serving("ALPHA") as alpha, serving("BETA") as beta:
        await beta.create("orders")
        await beta.create("other")
        name = rf"DIRECT=TCP:127.0.0.1:{beta.port}\private$\orders"
        other = rf"DIRECT=TCP:127.0.0.1:{beta.port}\private$\other"
        guid = alpha.manager.machine.identifier
        await alpha.send(name, b"first")
        await until(lambda: beta.count("orders") == 1)
        count = dose(200, 2000)
        last = max(beta.manager.transfer.receiving.history.known_of(guid))
        stranger = await Stranger.connect(beta)
        assert not await stranger.is_refused(STRANGER)
        for ordinal in range(last + 1, last + 1 + count):
            stranger.writer.write(forged(guid, other, ordinal))
        await until(lambda: beta.count("other") == count)
        await alpha.send(name, *REAL, *REAL)
        await until(lambda: beta.count("orders") == 11)
        await settled(alpha, name)
        stranger.close()


@on_loop
async def test_nobody_opens_a_session_as_the_server_itself_or_as_nobody() -> None:
    """Finding F15."""
    async with serving("BETA") as beta:
        for guid in (beta.manager.machine.identifier, NULL_GUID):
            stranger = await Stranger.connect(beta)
            assert await stranger.is_refused(guid)
            stranger.close()


def test_answers_for_who_claims_a_guid_lead_nothing_else_to_him() -> None:
    """A router that had called them back gave them what was for the machine."""
    StrangerRoutedTrial(27).run()


@on_loop
async def test_sources_of_one_address_are_apart() -> None:
    """ALPHA, CAROL and DORA have one address, as behind a NAT."""
    async with serving("ALPHA") as alpha, serving("CAROL") as carol, serving("BETA") as beta:
        await beta.create("exact", transactional=True)
        name = rf"DIRECT=TCP:127.0.0.1:{beta.port}\private$\exact"
        for n in range(5):
            await alpha.send_in_transaction(name, b"alpha %d" % n)
            await carol.send_in_transaction(name, b"carol %d" % n)
        await until(lambda: beta.count("exact") == 10)
        bodies = await beta.bodies("exact")
        for who in (b"alpha", b"carol"):
            assert [b for b in bodies if b.startswith(who)] == [
                b"%s %d" % (who, n) for n in range(5)
            ]
        await settled(alpha, name)
        await settled(carol, name)
