"""`[limits] memory` bounds what a process takes, whatever strangers announce (F11 of the report).

Each attack begins something large on many connections of many addresses, never ends it, closes all
and comes again. The most that was ever resident of the server, as the system counts it, has to stay
below the setting and 150 MiB, and others have to be served meanwhile.
"""

from __future__ import annotations

import re
import socket
import struct
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import posthouse
from posthouse.client.session_upgrade import UPGRADE
from posthouse.model.enumerations import QueueAccessType
from posthouse.protocols.remote_read.stubs import REMOTE_READ
from posthouse.protocols.srmp.settings import SrmpSettings
from posthouse.rpc import pdu
from posthouse.rpc.syntax import NDR
from posthouse.wire.binary.internal import (
    CONNECTION_PARAMETERS_SIZE,
    ESTABLISH_CONNECTION_SIZE,
    connection_parameters,
    establish_connection,
)
from posthouse.wire.frames import frames
from posthouse.wire.frames.payloads import Hello, Open
from tests.conftest import Dose
from tests.process.flood import Flood, Kind, peak_mib
from tests.process.offices import wait_until
from tests.process.serving import Serving

MIB = 1 << 20
BEYOND_MIB = 150
GONE_S = 2.5 * SrmpSettings().request_ms / 1000
POST = "POST /msmq/private$/q HTTP/1.1\r\nHost: x\r\nContent-Type: text/xml\r\n{}\r\n\r\n"
QUEUE, BIG = r".\private$\q", r".\private$\big"
# A BaseHeader: version, reserved, flags, signature, the size of the packet, time to reach queue.
LARGE_PACKET = struct.pack("<BBHIII", 0x10, 0, 0, 0x524F494C, 4_000_000, 0xFFFFFFFF)
FRAGMENT = 60_000
DURABLE = {"unread durable frames"}  # express messages are held in a memory of their own


def received(one: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        data = one.recv(size - len(got))
        if not data:
            raise ConnectionResetError
        got += data
    return got


def until(one: socket.socket, mark: bytes) -> bytes:
    got = b""
    while mark not in got:
        got += received(one, 1)
    return got


def open_binary(one: socket.socket) -> bytes:
    guid = socket.inet_aton(one.getsockname()[0]) + one.getsockname()[1].to_bytes(12, "big")
    one.sendall(establish_connection(guid, time_stamp=1))
    received(one, ESTABLISH_CONNECTION_SIZE)
    one.sendall(connection_parameters(500, 20_000, 64))
    received(one, CONNECTION_PARAMETERS_SIZE)
    return LARGE_PACKET


def bind_rpc(one: socket.socket) -> bytes:
    item = pdu.ContextItem(0, REMOTE_READ, (NDR,))
    one.sendall(pdu.pack(pdu.BIND, pdu.WHOLE, 1, pdu.pack_bind(pdu.Bind(5840, 5840, 0, (item,)))))
    size = received(one, 10)[8:]
    received(one, int.from_bytes(size, "little") - 10)
    return fragment(0)


def fragment(sent: int) -> bytes:
    """The first of a call of 900 KB, or one more of it; and so on, call after call."""
    number = (sent // (FRAGMENT + 24)) % 15
    stub = pdu.pack_request(0, 7, bytes(FRAGMENT), alloc_hint=900_000)
    flags = 0 if number else pdu.FIRST_FRAG
    call_id = 2 + sent // (15 * (FRAGMENT + 24))
    return pdu.pack(pdu.REQUEST, flags, call_id, stub)


class Street:
    """A server with little memory, and words of programs that may speak with it."""

    def __init__(self, server: Serving, stack: ExitStack) -> None:
        self.server = server
        self.endpoints = server.ready()["endpoints"]
        self.qm = stack.enter_context(posthouse.connect(home=server.home))
        self.queue = self.qm.create_queue(QUEUE)
        self.token = self.qm.call("POST", "/tokens", {"role": "operate"})["token"]

    def kind(self, name: str) -> Kind:
        announced = POST.format("Content-Length: 5200000").encode()
        chunked = POST.format("Transfer-Encoding: chunked").encode() + b"500000\r\n"
        found: dict[str, Kind] = {
            "posts": Kind("http", lambda one: announced, 5_000_000),
            "posts in chunks": Kind("http", lambda one: chunked, 5_000_000),
            "packets": Kind("binary", open_binary, 3_900_000),
            "packets before the handshake": Kind("binary", lambda one: LARGE_PACKET, 3_900_000),
            "calls in fragments": Kind("rpc", bind_rpc, 7_000_000, fragment),
            "frames": Kind("admin", self.open_session, 15_000_000),
            "arrow": Kind("admin", self.begin_stage, 11_900_000),
            "unread frames": Kind("admin", self.read_much, 1_000, lambda sent: self.read_frame),
            "unread durable frames": Kind(
                "admin", self.read_much, 1_000, lambda sent: self.read_frame
            ),
            "unread answers": Kind("admin", lambda one: b"", 1_500, lambda sent: self.get),
        }
        return found[name]

    def head(self, line: str, *more: str) -> bytes:
        lines = [line, "Host: localhost", f"Authorization: Bearer {self.token}", *more]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def upgrade(self, one: socket.socket) -> None:
        line = "GET /api/v1/session HTTP/1.1"
        one.sendall(self.head(line, "Connection: Upgrade", f"Upgrade: {UPGRADE}"))
        until(one, b"\r\n\r\n")
        one.sendall(frames.encode(1, Hello()))
        (size,) = struct.unpack("<I", received(one, 4))
        received(one, size)

    def open_session(self, one: socket.socket) -> bytes:
        self.upgrade(one)
        return struct.pack("<IBI", 15 * MIB, frames.SEND, 2)

    def read_much(self, one: socket.socket) -> bytes:
        """Opens a queue of large messages, to peek at them and never read what comes."""
        self.upgrade(one)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.sendall(frames.encode(2, Open(BIG, QueueAccessType.RECEIVE)))
        (size,) = struct.unpack("<I", received(one, 4))
        payload = received(one, size)[5:]
        queue: Any = frames.decode_payload(frames.OPENED, payload)
        self.read_frame = frames.encode_read(
            frames.PEEK, 3, frames.Read(queue.queue, 0, 0, 1000, 4, 0)
        )
        return self.read_frame

    @property
    def get(self) -> bytes:
        return self.head("GET /api/v1/queues/.%5Cprivate$%5Cbig/messages?limit=4 HTTP/1.1")

    def begin_stage(self, one: socket.socket) -> bytes:
        path = "/api/v1/stages/flood/1/0/0?queue=.%5Cprivate$%5Cq"
        kind = "Content-Type: application/vnd.apache.arrow.stream"
        return self.head(f"PUT {path} HTTP/1.1", kind, "Content-Length: 13000000") + ARROW

    def held(self) -> float:
        """What is on the account, in buffers and announced."""
        found = figures(self.metrics())
        names = "posthouse_memory_bytes{", "posthouse_memory_reserved_bytes"
        return sum(value for name, value in found.items() if name.startswith(names))

    def metrics(self) -> str:
        request = urllib.request.Request(
            f"http://{self.endpoints['admin']}/metrics",
            headers={"Authorization": f"Bearer {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return str(answer.read().decode())


def _arrow() -> bytes:
    """The schema and the beginning of a record batch of 12 MB, as pyarrow writes them."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"body": pa.array([bytes(12_000_000)], pa.binary())})
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue()[:2000])


ARROW = _arrow()


def settings_of(memory_mib: int) -> str:
    return (
        f'[limits]\nmemory = "{memory_mib}MiB"\nunsynced = "8MiB"\n'
        '[queue_manager]\ndefault_access = {users = "full", anonymous = "full"}\n'
        "[rpc]\nunfinished_ms = 5000\n"  # a peer that we read nothing of is gone after that
    )


@pytest.mark.parametrize(
    "name",
    [
        "posts",
        "posts in chunks",
        "packets",
        "packets before the handshake",
        "calls in fragments",
        "frames",
        "arrow",
        "unread frames",
        "unread durable frames",
        "unread answers",
    ],
)
def test_memory_stays_below_its_setting(tmp_path: Path, dose: Dose, name: str) -> None:
    memory = dose(64 if name == "arrow" else 32, 128)  # pyarrow itself takes 60 MiB
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "posthouse.toml").write_text(settings_of(memory))
    with Serving(tmp_path, "--name", "ALPHA") as server, ExitStack() as stack:
        street = Street(server, stack)
        if name.startswith("unread"):
            big = street.qm.create_queue(BIG)
            for _ in range(4):
                big.send(bytes(4_000_000), recoverable=name in DURABLE)
        kind = street.kind(name)
        flood = Flood(kind, street.endpoints[kind.endpoint], dose(6, 10), dose(12, 50))
        for round_ in range(dose(2, 20)):
            flood.open()
            flood.run(dose(5, 30) / 10)
            street.queue.send(b"small", recoverable=True)  # those are always read
            assert street.queue.count() == round_ + 1
            flood.close()
        assert flood.opened > dose(20, 1000)
        # Nothing is left on the account. Where TCP gave a peer up that we read nothing of, it goes
        # when the time of its request is over.
        wait_until(lambda: street.held() == 0, street.held, GONE_S)
        peak = peak_mib(server.process.pid)
        print(name, peak, "MiB")
        assert peak < memory + BEYOND_MIB, f"{name}: {peak} MiB"


@pytest.mark.parametrize("slow", [False, True], ids=["whole", "slow"])
def test_one_address_leaves_room_for_the_others(tmp_path: Path, slow: bool) -> None:
    """A quarter by what is announced: the large request of another address is read at once."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "posthouse.toml").write_text(settings_of(64))
    with Serving(tmp_path, "--name", "ALPHA") as server, ExitStack() as stack:
        street = Street(server, stack)
        begun = Kind("http", street.kind("posts").shake, 100 if slow else 5_000_000)
        flood = Flood(begun, street.endpoints["http"], 1, 30)
        stack.callback(flood.close)
        flood.open()
        flood.run(0.5)
        found = figures(street.metrics())
        assert found["posthouse_memory_waits_total"] > 0
        used = found["posthouse_memory_reserved_bytes"]
        used += found['posthouse_memory_bytes{kind="receive"}']
        assert 5_000_000 < used < 64 * MIB / 2
        host, _, port = street.endpoints["http"].rpartition(":")
        with socket.create_connection((host, int(port)), timeout=30) as other:
            other.sendall(POST.format("Content-Length: 4000000").encode() + bytes(4_000_000))
            assert other.recv(12) == b"HTTP/1.1 400"  # it has been read, and is not XML


def figures(text: str) -> dict[str, float]:
    found = re.findall(r"^(\w+(?:\{[^}]*\})?) ([0-9.e+]+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found}
