"""The kernel's own account of sessions: what a server says it has, and what it sends, is synced."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

import posthouse
from posthouse.model.message import DeliveryGuarantee, Message, MessageId
from posthouse.wire.binary.internal import (
    connection_parameters,
    establish_connection,
    read_session_ack,
)
from posthouse.wire.binary.stream import PacketKind, PacketSplitter, packet_kind
from posthouse.wire.packet.message import serialize
from tests.process.offices import TIMERS, Office, free_port, wait_until
from tests.support.process.strace_server import (
    BYTES,
    CALLS,
    PATH,
    SOCKET_WRITES,
    START_S,
    unescaped,
)
from tests.support.strace_lines import Call, parsed

GUID = bytes(range(16))
BATCHES = (1,) * 10 + (5, 40, 3, 1, 60)
SENDS = 30
IN, OUT = re.compile(rb"came-in-(\d{5})"), re.compile(rb"goes-out-(\d{5})")
SETTINGS = '[queue_manager]\nname = "ALPHA"\n[ping]\nanswer = false\n[binary]\nport = {port}\n'


class Peer:
    """Another queue manager with one session, as far as this test needs one."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=START_S)
        self._splitter = PacketSplitter()
        self._count = self.acknowledged = 0
        self._target = f"DIRECT=TCP:127.0.0.1:{port}\\private$\\orders"
        self._socket.sendall(establish_connection(GUID, time_stamp=1))
        self._wait_for(PacketKind.ESTABLISH_CONNECTION)
        self._socket.sendall(connection_parameters(20, 20_000, 64))
        self._wait_for(PacketKind.CONNECTION_PARAMETERS)

    def send(self, count: int) -> None:
        """Recoverable messages; returns when they are acknowledged."""
        self._socket.sendall(b"".join(self._packet() for _ in range(count)))
        while self.acknowledged < self._count:
            self._wait_for(PacketKind.SESSION_ACK)

    def _packet(self) -> bytes:
        self._count += 1
        message = Message(
            identifier=MessageId(GUID, self._count),
            source_machine_identifier=GUID,
            destination_queue_format_name=self._target,
            delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
            sent_time=int(time.time()),
            body=b"came-in-%05d" % self._count,
        )
        return serialize(message)

    def _wait_for(self, kind: PacketKind) -> None:
        while True:
            for packet in self._splitter.feed(self._socket.recv(1 << 16)):
                found = packet_kind(packet)
                if found is PacketKind.SESSION_ACK:
                    self.acknowledged = read_session_ack(packet).header.ack_sequence_number
                if found is kind:
                    return

    def close(self) -> None:
        self._socket.close()


def traced(folder: Path) -> list[Call]:
    """What a server did while it had sessions in both directions."""
    port, home = free_port(), folder / "home"
    trace, ready = folder / "trace", folder / "ready.json"
    home.mkdir(mode=0o700)
    (home / "posthouse.toml").write_text(SETTINGS.format(port=port) + TIMERS)
    command = ["strace", "-f", "-y", "-xx", "-s", "1000000", "-e", f"trace={CALLS}"]
    command += ["-o", str(trace), sys.executable, "-m", "posthouse.cli.main", "serve"]
    command += ["--home", str(home), "--ready-file", str(ready), "--ports", "ephemeral"]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    with ExitStack() as running:
        process = subprocess.Popen(command, env=environment)
        running.callback(process.wait)
        running.callback(process.kill)
        wait_until(ready.exists, lambda: process.poll())
        work(home, port, Office(folder / "BRAVO", "BRAVO", running))
        os.kill(json.loads(ready.read_text())["pid"], signal.SIGTERM)
        assert process.wait(START_S) == 0
    return parsed(PATH.sub(lambda found: f"<{unescaped(found[1]).decode()}>", trace.read_text()))


def work(home: Path, port: int, bravo: Office) -> None:
    """Messages come in on one session and go out on another."""
    bravo.create("plain")
    bravo.create("ledger", transactional=True)
    with posthouse.connect(home) as qm:
        qm.create_queue(r".\private$\orders")
        peer = Peer(port)
        for count in BATCHES:
            peer.send(count)
        peer.close()
        for number in range(SENDS):
            body = b"goes-out-%05d" % number
            if number % 2:
                qm.queue(bravo.name_of("plain")).send(body, recoverable=True)
            else:
                qm.queue(bravo.name_of("ledger")).send(body, transactional=True)
    half = SENDS // 2
    wait_until(lambda: len(bravo.bodies("plain")) == half, lambda: bravo.bodies("plain"))
    wait_until(lambda: len(bravo.bodies("ledger")) == half, lambda: bravo.bodies("ledger"))


class Account:
    """Goes through a trace; `early` is what left too soon."""

    def __init__(self, store: str) -> None:
        self.store = store
        self.early: list[str] = []
        self.seen: Counter[str] = Counter()
        self._written: dict[str, set[bytes]] = {}
        self._synced: set[bytes] = set()
        self._streams: dict[str, PacketSplitter] = {}

    def go_through(self, calls: list[Call]) -> None:
        for call in calls:
            log = call.path.startswith(self.store) and call.path.endswith(".log")
            if log and call.name.startswith("pwrite"):
                found = (match[0] for kind in (IN, OUT) for match in kind.finditer(data_of(call)))
                self._written.setdefault(call.path, set()).update(found)
            elif log and call.name in ("fdatasync", "fsync"):
                self._synced |= self._written.pop(call.path, set())
            elif call.name in SOCKET_WRITES and call.path.startswith("socket:"):
                self._left(call.path, data_of(call))

    def _left(self, path: str, data: bytes) -> None:
        """Bytes for somebody; only those of binary sessions are packets."""
        splitter = self._streams.setdefault(path, PacketSplitter())
        for packet in splitter.feed(data):
            kind = packet_kind(packet)
            self.seen[kind.value] += 1
            if kind is PacketKind.SESSION_ACK:
                last = read_session_ack(packet).header.ack_sequence_number
                self._require([b"came-in-%05d" % number for number in range(1, last + 1)], kind)
            elif found := OUT.search(packet):
                self.seen["sent"] += 1
                self._require([found[0]], kind)

    def _require(self, markers: list[bytes], kind: PacketKind) -> None:
        unsafe = [marker for marker in markers if marker not in self._synced]
        if unsafe:
            self.early.append(f"{kind.value} for {unsafe[0]!r}")


def data_of(call: Call) -> bytes:
    return b"".join(map(unescaped, BYTES.findall(call.text)))


@pytest.mark.peer("strace")
@pytest.mark.spec("MS-MQQB 3.1.1.6.1/2", "MS-MQQB 3.1.5.8.7/3")
def test_no_session_ack_and_no_message_leaves_before_its_sync(tmp_path: Path) -> None:
    calls, store = traced(tmp_path), str((tmp_path / "home" / "store").resolve())
    account = Account(store)
    account.go_through(calls)
    print(dict(account.seen))
    assert account.early == []
    assert account.seen[PacketKind.SESSION_ACK.value] >= len(BATCHES)
    assert account.seen["sent"] >= SENDS

    without = Account(store)  # it would have been noticed
    without.go_through([call for call in calls if call.name not in ("fdatasync", "fsync")])
    assert len(without.early) >= len(BATCHES) + SENDS
