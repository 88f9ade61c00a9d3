"""tshark dissects what real clients and a real server say to each other."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

import posthouse
from posthouse.client.remote.login import Authentication, Mechanism
from tests.process.recording import Recording
from tests.process.rpc_house import House, add_user
from tests.support.process.impacket_reader import INTEGRITY, NONE, PRIVACY, Reader, body
from tests.support.process.samba_reader import samba

pytestmark = pytest.mark.peer("tshark", "samba")

REQUEST, RESPONSE, FAULT, BIND, BIND_ACK, BIND_NAK = 0, 2, 3, 11, 12, 13
ALTER_CONTEXT, ALTER_CONTEXT_RESP, AUTH3 = 14, 15, 16
KINDS = {
    *(REQUEST, RESPONSE, FAULT, BIND, BIND_ACK, BIND_NAK),
    *(ALTER_CONTEXT, ALTER_CONTEXT_RESP, AUTH3),
}
SEALED = 6
OURS: list[tuple[Authentication, Mechanism]] = [
    ("none", "ntlm"),
    ("connect", "ntlm"),
    ("integrity", "negotiate"),
    ("privacy", "negotiate"),
    ("privacy", "ntlm"),
]
OPTIONS = ["", "connect,ntlm", "sign,ntlm", "seal,ntlm", "sign,spnego", "seal,spnego,ndr64"]
# A call, one that is not there, and one of several fragments whose stub is too long.
# tshark stumbles over sealed PDUs without any stub, so that none of them is empty.
CALLS = [(0, ""), (1, "00000000"), (3, bytes(9000).hex())]
WARNING = 0x600000  # of tshark's severities
FIELDS = (
    *("dcerpc.pkt_type", "dcerpc.auth_level", "epm.num_ents"),
    *("_ws.expert.severity", "_ws.malformed"),
)
# tshark decrypts what is sealed, but only with passwords in ASCII.
LOGIN = ("plain", "Reader of traces 1!")


class Packet(NamedTuple):
    """What tshark found in a packet, which may hold several PDUs."""

    kinds: set[int]
    levels: set[int]
    entries: set[int]
    severities: set[int]
    malformed: str


@pytest.fixture(scope="module")
def capture(house: House, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Conversations of samba, impacket and our own client; something that is not an RPC, too."""
    add_user(house.qm, *LOGIN)
    house.qm.create_queue(r".\private$\recorded")
    house.qm.queue(r".\private$\recorded").send(bytes(20_000))
    file = tmp_path_factory.mktemp("capture") / "capture.pcap"
    with Recording(file, house.rpc_port, 2103) as recording:
        for options in OPTIONS:
            samba(recording.port, options, CALLS, *LOGIN)
        for level in (NONE, INTEGRITY, PRIVACY):
            read_all(Reader(house, level, *LOGIN, port=recording.port))
        for authentication, mechanism in OURS:
            peek(recording.port, authentication, mechanism)
        talk_nonsense(recording.port)
    return file


def read_all(reader: Reader) -> None:
    handle = reader.open("recorded")
    assert body(reader.start(handle)) == bytes(20_000)
    assert reader.end(handle, ack=1) == 0
    reader.close(handle)
    reader.dce.disconnect()


def peek(port: int, authentication: Authentication, mechanism: Mechanism) -> None:
    user, password = LOGIN if authentication != "none" else (None, None)
    with posthouse.msmq(
        "127.0.0.1",
        rpc_port=port,
        user=user,
        password=password,
        authentication=authentication,
        mechanism=mechanism,
    ) as remote:
        assert remote.queue(r"private$\recorded").peek().body == bytes(20_000)


def talk_nonsense(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"this is not how one binds\n")
        while connection.recv(4096):
            pass


def tshark(file: Path) -> list[Packet]:
    """Every packet, protected ones in the clear: tshark knows the password."""
    options = ["-T", "fields", *(word for name in FIELDS for word in ("-e", name))]
    command = ["tshark", "-n", "-r", str(file), "-o", f"ntlmssp.nt_password:{LOGIN[1]}", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    found = [line.split("\t") for line in done.stdout.splitlines()]
    return [Packet(*map(numbers, values[:-1]), values[-1]) for values in found]


def numbers(values: str) -> set[int]:
    return {int(value, 0) for value in values.split(",") if value}


@pytest.fixture(scope="module")
def packets(capture: Path) -> list[Packet]:
    return tshark(capture)


def test_nothing_is_malformed(packets: list[Packet]) -> None:
    assert [packet for packet in packets if packet.malformed] == []
    warned = [packet for packet in packets if max(packet.severities, default=0) >= WARNING]
    assert [packet.kinds for packet in warned] == [{BIND_NAK}]  # it warns of refusals as such


@pytest.mark.spec("RPC/12", "RPC/13", "RPC/14", "RPC/27")
def test_every_kind_of_pdu_is_known(packets: list[Packet]) -> None:
    assert set().union(*(packet.kinds for packet in packets)) == KINDS


@pytest.mark.spec("RPC/21")
def test_what_is_sealed_is_what_was_said(packets: list[Packet]) -> None:
    answers = [packet for packet in packets if packet.entries]
    in_the_clear = {max(packet.entries) for packet in answers if SEALED not in packet.levels}
    sealed = [packet.entries for packet in answers if SEALED in packet.levels]
    assert sealed == [in_the_clear]
