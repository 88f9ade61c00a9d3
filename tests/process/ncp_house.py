"""A real server with a job queue, for NetWare clients; and UDP that records."""

from __future__ import annotations

import itertools
import socket
import struct
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import posthouse
from posthouse import qms
from posthouse.client.ncp.calls import NcpCalls
from posthouse.client.ncp.link import NcpLink, Transport
from posthouse.model.bindery import NWOT_JOB_QUEUE, NWOT_JOB_SERVER, NWOT_USER
from posthouse.model.qms import NWQueueJobStruct
from tests.process.serving import Serving

HOST = "127.0.0.1"
PASSWORD = "SECRET"
QUEUE = "JOBS"


class NcpHouse:
    """`posthouse serve` with ALICE, who submits and operates, and SERVER."""

    def __init__(self, folder: Path, running: ExitStack, name: str = "ALPHA") -> None:
        self.serving = running.enter_context(Serving(folder, "--name", name))
        self.home = self.serving.home
        self.endpoint: str = self.serving.ready()["endpoints"]["ncp"]
        self.port = int(self.endpoint.rpartition(":")[2])
        self.queue = furnish(self.home)

    def passwd(self, name: str, kind: int) -> None:
        """Gives an object a password."""
        with posthouse.connect(self.home) as manager:
            qms.on(manager).door.change_object_password(name, kind, "", PASSWORD)

    def client(
        self, name: str = "", kind: int = NWOT_USER, *, udp: bool = False, port: int = 0
    ) -> NcpCalls:
        return client(port or self.port, name, kind, udp=udp)


def furnish(home: Path) -> int:
    """Objects with passwords and a queue, by the control socket; the ID of the queue."""
    with posthouse.connect(home) as manager:
        door = qms.on(manager).door
        for name, kind in (("ALICE", NWOT_USER), ("SERVER", NWOT_JOB_SERVER)):
            door.create_object(name, kind, 0, 0x31)
            door.change_object_password(name, kind, "", PASSWORD)
        queue = door.create_queue(QUEUE, NWOT_JOB_QUEUE, "SYS:SYSTEM")
        for role, name, kind in (
            ("Q_USERS", "ALICE", NWOT_USER),
            ("Q_OPERATORS", "ALICE", NWOT_USER),
            ("Q_SERVERS", "SERVER", NWOT_JOB_SERVER),
        ):
            door.add_object_to_set(QUEUE, NWOT_JOB_QUEUE, role, name, kind)
        return queue


def client(port: int, name: str = "", kind: int = NWOT_USER, *, udp: bool = False) -> NcpCalls:
    """A connection, and where a name is given a login on it."""
    transport: Transport = "udp" if udp else "tcp"
    calls = NcpCalls(NcpLink(HOST, port, transport=transport, timeout_s=30.0))
    if name:
        calls.login(name, kind, PASSWORD)
    return calls


def submit(calls: NcpCalls, queue: int, data: bytes, **fields: int) -> int:
    """A job with its data; its number."""
    job = calls.create_queue_file(queue, NWQueueJobStruct(**fields))  # type: ignore[arg-type]
    calls.write_file(job.job_file_handle, 0, data)
    calls.close_file_and_start_queue_job(queue, job.job_number)
    return job.job_number


class DatagramRecording:
    """Between clients on UDP and one server; what passes is a pcap file at the end."""

    def __init__(self, file: Path, port: int, shown_port: int) -> None:
        self._server = (HOST, port)
        self._shown_port = shown_port
        self._file = file.open("wb")
        self._file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 101))
        self._times = itertools.count()
        self._lock = threading.Lock()
        self._front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._front.bind((HOST, 0))
        self.port = int(self._front.getsockname()[1])
        self._backs: dict[tuple[str, int], socket.socket] = {}
        self._threads = [threading.Thread(target=self._up)]
        self._threads[0].start()
        self._closing = False

    def _up(self) -> None:
        with suppress(OSError):
            while True:
                data, peer = self._front.recvfrom(1 << 16)
                if self._closing:
                    return
                back = self._backs.get(peer)
                if back is None:
                    back = self._backs[peer] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                    back.connect(self._server)
                    thread = threading.Thread(target=self._down, args=(back, peer))
                    self._threads.append(thread)
                    thread.start()
                self._write(peer[1], self._shown_port, data, up=True)
                back.send(data)

    def _down(self, back: socket.socket, peer: tuple[str, int]) -> None:
        with suppress(OSError):
            while data := back.recv(1 << 16):
                self._write(self._shown_port, peer[1], data, up=False)
                self._front.sendto(data, peer)

    def _write(self, source: int, target: int, data: bytes, *, up: bool) -> None:
        hosts = bytes((192, 0, 2, 1)), bytes((192, 0, 2, 2))
        udp = struct.pack(">HHHH", source, target, 8 + len(data), 0) + data
        head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0)
        packet = head + b"".join(hosts if up else hosts[::-1]) + udp
        with self._lock:
            size = len(packet)
            self._file.write(struct.pack("<IIII", 1, next(self._times), size, size) + packet)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing = True
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", (HOST, self.port))  # wakes the thread that reads
        self._threads[0].join()
        for back in self._backs.values():
            with suppress(OSError):
                back.shutdown(socket.SHUT_RDWR)
            back.close()
        for thread in self._threads:
            thread.join()
        self._front.close()
        self._file.close()
