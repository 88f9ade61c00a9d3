"""What dumpcap records of real servers and clients, as `posthouse decode` reads it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import posthouse
from posthouse.cli.decode.capture.blanking import blanked
from posthouse.cli.decode.capture.offline import own_answers
from posthouse.cli.decode.capture.transcript import CaptureFound, read_capture
from tests.process.offices import wait_until
from tests.process.serving import Serving

pytestmark = [
    pytest.mark.peer("tshark"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may listen on an interface"),
]

BODY = b"only for the clerks of the hospital " * 300
SETTINGS = """
[queue_manager]
name = "ALPHA"
default_access = {everyone = "full", anonymous = "full"}
[rpc]
minimum_authentication = "none"
"""
QUEUE = r"private$\orders"


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Messages that are sent and read over the wire, recorded on the loopback."""
    folder = tmp_path_factory.mktemp("capture")
    (folder / "home").mkdir(mode=0o700)
    (folder / "home" / "posthouse.toml").write_text(SETTINGS)
    file = folder / "capture.pcapng"
    with Serving(folder) as serving:
        ends = serving.ready()["endpoints"]
        ports = {name: int(ends[name].rpartition(":")[2]) for name in ("binary", "rpc", "http")}
        with posthouse.connect(serving.home) as qm:
            qm.create_queue(f".\\{QUEUE}")
        words = " or ".join(f"tcp port {port}" for port in ports.values())
        recorder = subprocess.Popen(
            ["dumpcap", "-q", "-i", "lo", "-f", words, "-w", str(file)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        try:
            assert recorder.stderr is not None
            line = b""
            while b"File:" not in line:  # it listens
                line = recorder.stderr.readline()
                assert line, "dumpcap has ended"
            talk(ports)
            wait_until(lambda: file.stat().st_size > 0 and is_whole(file), lambda: sizes(file))
        finally:
            recorder.send_signal(signal.SIGINT)
            recorder.communicate(timeout=30)
    return file.read_bytes()


def is_whole(file: Path) -> bool:
    """Whether the ends of all three conversations were written."""
    return set(sizes(file)) == {"binary", "rpc", "http"} and all(
        session.end != "still open" for session in read_capture(file.read_bytes()).sessions
    )


def sizes(file: Path) -> Counter[str]:
    return Counter(session.protocol for session in read_capture(file.read_bytes()).sessions)


def talk(ports: dict[str, int]) -> None:
    with posthouse.msmq(
        "127.0.0.1", binary_port=ports["binary"], rpc_port=ports["rpc"], authentication="none"
    ) as remote:
        for _ in range(3):
            remote.queue(QUEUE).send(BODY)
        assert remote.queue(QUEUE).receive(timeout=10).body == BODY
    with socket.create_connection(("127.0.0.1", ports["http"])) as web:
        web.sendall(b"POST /msmq/private$/orders HTTP/1.1\r\nHost: ALPHA\r\nContent-Length: 2\r\n")
        web.sendall(b"Content-Type: text/xml\r\nConnection: close\r\n\r\nno")
        while web.recv(4096):
            pass


def problems(found: CaptureFound) -> list[str]:
    return [line.problem for one in found.sessions for line in one.lines if line.problem]


def test_every_session_is_read_and_nothing_of_it_is_a_riddle(capture: bytes) -> None:
    found = read_capture(capture)
    assert {session.protocol for session in found.sessions} == {"binary", "rpc", "http"}
    assert all(session.begun for session in found.sessions)
    assert len(problems(found)) == 1  # what was posted is not XML
    kinds = Counter(
        line.view.kind for one in found.sessions for line in one.lines if line.view is not None
    )
    assert kinds["UserMessage"] == 3
    assert kinds["RPC request R_StartReceive"] == kinds["RPC response R_StartReceive"] == 1
    assert kinds["RPC request R_EndReceive"] == 1


def test_we_would_have_answered_what_we_did(capture: bytes) -> None:
    """The same handshake; and the session acknowledgment is ours, whenever it comes."""
    for session in read_capture(capture).sessions:
        sent = [line.data for line in session.lines if not line.from_client]
        ours = [answer.data for answer in own_answers(session) if answer.data]
        if session.protocol == "binary":
            assert b"".join(ours).startswith(sent[0][:16])
            assert len(b"".join(ours)) == len(b"".join(sent))
        elif session.protocol == "http":
            assert [one[:12] for one in ours] == [one[:12] for one in sent] == [b"HTTP/1.1 400"]


def test_a_blank_copy_has_the_same_sessions_without_bodies(capture: bytes) -> None:
    found = read_capture(capture)
    copy = blanked(capture, found)
    assert BODY[:36] in capture
    assert BODY[:36] not in copy
    again = read_capture(copy)
    assert [len(one.lines) for one in again.sessions] == [len(one.lines) for one in found.sessions]


def test_tshark_sees_the_same_packets_in_the_copy(capture: bytes, tmp_path: Path) -> None:
    file = tmp_path / "safe.pcap"
    file.write_bytes(blanked(capture, read_capture(capture)))
    done = subprocess.run(
        ["tshark", "-n", "-r", str(file), "-T", "fields", "-e", "tcp.analysis.lost_segment"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == sum(len(one.frames) for one in read_capture(capture).sessions)
    assert not any(line.strip() for line in lines)


def test_the_command_prints_it(capture: bytes, tmp_path: Path) -> None:
    file = tmp_path / "capture.pcapng"
    file.write_bytes(capture)
    words = [sys.executable, "-m", "posthouse.cli.main", "decode", str(file), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {row["protocol"] for row in rows[:-1]} == {"binary", "rpc", "http"}
