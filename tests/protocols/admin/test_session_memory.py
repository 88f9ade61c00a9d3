"""Reads of client sessions ask for memory before messages are fetched, and wait in turn for it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from posthouse.model.message import HashAlgorithm
from posthouse.model.properties import MessageSeekAction
from posthouse.protocols.memory import ANSWERS, SMALL_REQUEST, Buffer, Holder, MemoryAccount
from posthouse.security.sids import ANONYMOUS
from posthouse.wire.frames import frames, payloads
from posthouse.wire.packet.message import deserialize
from posthouse.wire.packet.packet_fields import summarize
from tests.protocols.admin.session_rig import (
    ORDERS,
    RECEIVE,
    SEND,
    Client,
    SessionRig,
    packet,
    packets,
)
from tests.wire.srmp import http_packet

MIB = 1 << 20
LIMIT = 16 * MIB
LARGE = 2 * MIB
ORDERS_DIRECT = r"DIRECT=OS:ALPHA\private$\orders"
ADMIN = r"DIRECT=OS:ALPHA\private$\answers"


class Reader:
    """A client whose answers are on an account of memory, as its connection puts them there."""

    def __init__(self, rig: SessionRig, account: MemoryAccount, address: str) -> None:
        self.account = account
        self.holder: Holder = account.open(address, lambda reason: None, self._go_on)
        self.client: Client = rig.client(
            room=lambda: account.room_for(self.holder),
            has_room=self.holder.may_answer,
            counted=self._count,
        )
        self.queue = self.client.open(access=RECEIVE)

    def _go_on(self) -> None:
        self.client.session.go_on()

    def _count(self) -> None:
        session: Any = getattr(getattr(self, "client", None), "session", None)
        if session is not None and not self.holder.gone:
            self.holder.hold(ANSWERS, session.unsent_bytes)


class Street:
    """Some readers of some addresses, and whoever else holds memory."""

    def __init__(self, rig: SessionRig) -> None:
        self.rig = rig
        self.account = MemoryAccount(LIMIT)
        self.other = self.account.open("other", lambda reason: None, lambda: None)

    def reader(self, address: str = "10.0.0.1") -> Reader:
        return Reader(self.rig, self.account, address)

    def fill(self, size: int) -> None:
        self.other.hold(Buffer.SEND, size)


@pytest.fixture
def rig() -> SessionRig:
    return SessionRig()


@pytest.fixture
def street(rig: SessionRig) -> Street:
    return Street(rig)


def fetched(rig: SessionRig) -> list[int]:
    """Sizes of the packets that are read from the store from now on."""
    sizes: list[int] = []
    reading = rig.driver.manager.messages.reading
    read_many = reading._read_many

    def noted(numbers: list[int]) -> list[tuple[bytes, bytes]]:
        found = read_many(numbers)
        sizes.extend(len(packet) for _, packet in found)
        return found

    reading._read_many = noted
    return sizes


def send(street: Street, *sizes: int) -> None:
    client = street.rig.client()
    client.send(client.open(), packets(*(bytes(size) for size in sizes)))


def looked_up(reader: Reader) -> int:
    return reader.client.put(payloads.Lookup(reader.queue, 0, MessageSeekAction.FIRST))


Begin = Callable[[Reader], int]
READS: dict[str, Begin] = {
    "receive": lambda reader: reader.client.put_read(reader.queue),
    "receive several": lambda reader: reader.client.put_read(reader.queue, count=10),
    "peek": lambda reader: reader.client.put_read(reader.queue, kind=frames.PEEK),
    "lookup": looked_up,
}


@pytest.mark.parametrize("name", READS)
def test_nothing_is_fetched_before_there_is_room(street: Street, name: str) -> None:
    send(street, LARGE)
    reader, sizes = street.reader(), fetched(street.rig)
    street.fill(LIMIT // 2 - MIB)
    request = READS[name](reader)
    assert reader.client.waits(request)
    assert sizes == []
    street.fill(0)
    assert len(reader.client.answer(request)) == 1
    assert street.account.held == 0


def test_small_messages_are_read_whatever_others_hold(street: Street) -> None:
    send(street, 1000, SMALL_REQUEST // 2, SMALL_REQUEST // 2)
    reader = street.reader()
    street.fill(LIMIT // 2 + MIB)
    assert len(reader.client.read(reader.queue, count=10)) == 2  # not more than a small answer
    assert len(reader.client.read(reader.queue, count=10)) == 1


def test_an_answer_has_as_many_messages_as_there_is_room_for(street: Street) -> None:
    send(street, *[MIB] * 6)
    reader = street.reader()
    street.fill(LIMIT // 2 - 3 * MIB)
    assert len(reader.client.read(reader.queue, count=10)) == 2  # with their headers
    cursor = reader.client.ask(payloads.OpenCursor(reader.queue), payloads.CursorOpened).cursor
    peeked = reader.client.read(reader.queue, kind=frames.PEEK, cursor=cursor, count=10)
    assert len(peeked) == 3  # the one that passes it included
    street.fill(0)
    assert len(reader.client.read(reader.queue, count=10)) == 3  # a quarter is for one address


def test_reads_of_many_sessions_stay_within_the_account_and_are_all_served(street: Street) -> None:
    send(street, LARGE)
    readers = [street.reader(f"10.0.0.{number % 3}") for number in range(30)]
    asked = [
        (reader, reader.client.put_read(reader.queue, kind=frames.PEEK))
        for reader in readers
        for _ in range(3)
    ]
    for reader, request in asked:
        assert len(reader.client.answer(request)) == 1
    assert street.account.peak <= LIMIT // 2 + LARGE  # an answer and its copy on the way out
    assert street.account.held == 0


def test_a_read_that_waits_for_room_is_forgotten_with_its_session(street: Street) -> None:
    send(street, LARGE)
    reader, other = street.reader(), street.reader("10.0.0.2")
    street.fill(LIMIT // 2 - MIB)
    reader.client.put_read(reader.queue)
    street.rig.desk.settle()
    reader.client.session.lost()
    reader.holder.leave()
    street.fill(0)
    street.rig.desk.settle()
    assert len(other.client.read(other.queue)) == 1
    assert street.account.used == 0


def test_peeks_that_wait_for_a_message_look_again_where_there_is_no_room(street: Street) -> None:
    """One message wakes them all, and each would have a copy of it."""
    readers = [street.reader(f"10.0.0.{number}") for number in range(20)]
    asked = [
        (reader, reader.client.put_read(reader.queue, kind=frames.PEEK, timeout_ms=1000))
        for reader in readers
    ]
    street.rig.desk.settle()
    street.fill(LIMIT // 2 - LARGE - MIB)
    send(street, LARGE)
    street.rig.desk.settle()
    street.fill(0)
    for reader, request in asked:
        assert [len(deserialize(m.packet).body) for m in reader.client.answer(request)] == [LARGE]
    assert street.account.peak <= LIMIT // 2 + LARGE


def test_a_peek_that_looks_again_has_the_rest_of_its_time(street: Street) -> None:
    reader, taker = street.reader(), street.rig.client()
    request = reader.client.put_read(reader.queue, kind=frames.PEEK, timeout_ms=1000)
    street.rig.desk.settle()
    street.fill(LIMIT // 2)
    send(street, LARGE)
    assert reader.client.waits(request)
    street.rig.clock.advance(600)
    taken = taker.read(taker.open(access=RECEIVE), flags=frames.READ_AT_ONCE)
    assert len(taken) == 1
    street.fill(0)
    assert reader.client.waits(request)
    street.rig.clock.advance(500)
    taker.send(taker.open(), packets(b"late"))
    assert reader.client.answer(request).code == 0xC00E001B  # MQ_ERROR_IO_TIMEOUT


def test_a_client_that_does_not_read_has_nothing_more_fetched(street: Street) -> None:
    send(street, LARGE)
    reader = street.reader()
    street.fill(LIMIT // 2 - MIB)
    request = reader.client.put_read(reader.queue)
    street.rig.desk.settle()
    reader.client.session.hold(True)
    street.fill(0)
    assert reader.client.waits(request)
    reader.client.session.hold(False)
    assert len(reader.client.answer(request)) == 1


# -- large packets are read where their frames are put together


def put_by_room(client: Client, queue: int, packet: bytes, tx: int = 0) -> int:
    """A SEND whose bytes are read as a connection with memory reserved reads them."""
    request, splitter, at = client.next_request(), client.session.splitter, 0
    stream = frames.encode_send(request, queue, tx, 0, [packet])
    while at < len(stream):
        room = splitter.room()
        some = stream[at : at + 50_000]
        if room is None:
            client.session.receive(some)
        else:
            some = some[: len(room)]
            room[: len(some)] = some
            client.session.receive(room[: len(some)])
        at += len(some)
    assert splitter.pending == 0
    return request


@pytest.mark.parametrize(
    ("how", "leaves"),
    [
        ({}, False),
        ({"acknowledgements_requested": 0x0F, "administration_queue_format_name": ADMIN}, False),
        ({"sender_identifier": ANONYMOUS, "hash_algorithm": HashAlgorithm.SHA_512}, False),
        ({"label": "x" * 240, "extension": b"e" * 100_000}, False),
        ({}, True),
        ({"acknowledgements_requested": 0x0F, "administration_queue_format_name": ADMIN}, True),
    ],
)
def test_a_packet_read_into_its_frame_is_sent_as_any_other(
    rig: SessionRig, how: dict[str, Any], leaves: bool
) -> None:
    """Whatever of it is looked at: headers, signature, queue names, body."""
    rig.create("answers")
    name = r"DIRECT=OS:BETA\private$\orders" if leaves else ORDERS
    client = rig.client()
    opened = client.ask(payloads.Open(name, SEND), payloads.Opened)
    sent = packet(b"x" * 300_000, to=opened.destination, **how)
    answers = [client.answer(put_by_room(client, opened.queue, sent)) for _ in range(2)]
    answers += [client.send(opened.queue, [sent]), client.send(opened.queue, [sent])]
    assert [len(answer) for answer in answers] == [1] * 4, answers
    manager = rig.desk.manager
    found = [manager.messages.packet(number) for number, _ in manager.ledger.state.table.items()]
    found = [one for one in found if len(one) > 1_000]  # not acknowledgments
    several = [summarize(one)._replace(ordinal=0) for one in found]
    assert several == several[:1] * 4
    assert [deserialize(one).body for one in found] == [b"x" * 300_000] * 4


def test_an_open_queue_does_not_keep_the_frame_of_a_large_packet(rig: SessionRig) -> None:
    """It keeps the front of the last packet, which it compares with the next one's."""
    client, sent = rig.client(), packet(b"x" * LARGE)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(4):
            assert len(client.answer(put_by_room(client, client.open(), sent))) == 1
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 5 * LARGE  # the messages themselves, on the disk of the rig


def test_a_packet_that_came_over_http_is_sent_again_from_its_frame(rig: SessionRig) -> None:
    client = rig.client()
    sent = http_packet(b"x" * 300_000, destination_queue_format_name=ORDERS_DIRECT)
    assert len(client.answer(put_by_room(client, client.open(), sent))) == 1
    assert client.bodies(client.open(access=RECEIVE)) == [b"x" * 300_000]


def test_a_packet_that_is_none_is_refused_from_its_frame_too(rig: SessionRig) -> None:
    client = rig.client()
    queue, bad = client.open(), bytearray(packet(b"x" * 300_000))
    bad[4:8] = b"NONE"
    refused = client.answer(put_by_room(client, queue, bytes(bad)))
    assert isinstance(refused, payloads.Refusal)
    assert "packet 0 of the batch is not a message" in refused.cause
