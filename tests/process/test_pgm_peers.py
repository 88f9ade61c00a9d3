"""OpenPGM, of the distribution's zmq, talks PGM with a real server over a cable that loses."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

import posthouse
from posthouse.model.guids import format_guid
from posthouse.model.names import MulticastName
from posthouse.protocols.pgm.session import MulticastPlace
from posthouse.protocols.pgm.srmp_bridge import read_unit, write_unit
from posthouse.wire.pgm.packets import NAK, NCF, ODATA, RDATA, SPM
from posthouse.wire.srmp.envelope import read_envelope
from posthouse.wire.srmp.message import SrmpMessage
from posthouse.wire.srmp.mime_parts import read_parts, write_parts
from posthouse.wire.srmp.values import write_message_id
from posthouse.wire.srmp.writer import write_envelope
from tests.process.offices import wait_until
from tests.support.process.network_namespaces import START_S, inside, ip

HERE = Path(__file__).parent
PLACE = MulticastPlace("234.7.7.7", 8123)
OWN, OTHER = "10.77.0.1", "10.77.0.2"
LOSS = 0.08
GUID = bytes(range(16))
SETTINGS = """
[queue_manager]
name = "HERE"
listen = "{own}"
[admin]
enabled = false
[binary]
enabled = false
[ping]
answer = false
[rpc]
enabled = false
[http]
port = 8888
[ncp]
enabled = false
[pgm]
encapsulation = "{encapsulation}"
rate = 400000
"""


class Laboratory:
    """Two networks with one cable, a server in the first, whatever is wanted in the second."""

    def __init__(self, folder: Path, encapsulation: str, running: ExitStack) -> None:
        self.encapsulation, self.folder, self._running = encapsulation, folder, running
        self.capture = folder / f"{encapsulation}.pcap"
        self.middle = self._hold("unshare", "--net", "--map-root-user")
        here = ("nsenter", "--target", str(self.middle), "--user", "--preserve-credentials")
        self.one, self.two = (self._hold(*here, "unshare", "--net") for _ in range(2))
        for pid, address, end in ((self.one, OWN, "left"), (self.two, OTHER, "right")):
            link = ("link", "add", end, "type", "veth", "peer", "name", "wire")
            ip(self.middle, *link, "netns", str(pid))
            ip(pid, "address", "add", f"{address}/24", "dev", "wire")
            for place, name in ((pid, "lo"), (pid, "wire"), (self.middle, end)):
                ip(place, "link", "set", name, "up")
        self._cable()
        self.home = self._serve()
        self.qm = running.enter_context(posthouse.connect(self.home))

    def _hold(self, *command: str) -> int:
        process = subprocess.Popen([*command, "sleep", "infinity"])
        self._running.callback(process.wait)
        self._running.callback(process.kill)
        name = Path(f"/proc/{process.pid}/comm")
        wait_until(lambda: name.read_text() == "sleep\n", name.read_text)
        return process.pid

    def _cable(self) -> None:
        program = [sys.executable, str(HERE / "lossy_cable.py"), "left", "right"]
        program += [str(LOSS), "1", str(self.capture)]
        cable = subprocess.Popen(inside(self.middle, *program), stdout=subprocess.PIPE)
        self._running.callback(cable.wait)
        self._running.callback(cable.kill)
        assert cable.stdout is not None
        assert cable.stdout.readline() == b"ready\n"

    def _serve(self) -> Path:
        home, ready = self.folder / "home", self.folder / "ready"
        home.mkdir(mode=0o700)
        settings = SETTINGS.format(own=OWN, encapsulation=self.encapsulation)
        (home / "posthouse.toml").write_text(settings, encoding="ascii")
        program = [sys.executable, "-m", "posthouse.cli.main", "serve", "--home", str(home)]
        server = subprocess.Popen(inside(self.one, *program, "--ready-file", str(ready)))
        self._running.callback(self._stop, server)
        until = time.monotonic() + START_S
        while not ready.exists():
            assert server.poll() is None
            assert time.monotonic() < until
            time.sleep(0.02)
        return home

    def _stop(self, server: subprocess.Popen[bytes]) -> None:
        server.send_signal(signal.SIGTERM)
        assert server.wait(START_S) == 0

    def openpgm(self, role: str, *count: str) -> subprocess.Popen[str]:
        """The program in the other network, when it is ready."""
        words = [role, OTHER, PLACE.group, str(PLACE.port), self.encapsulation, "60", *count]
        program = ["/usr/bin/python3", str(HERE / "openpgm.py"), *words]
        pipe = subprocess.PIPE
        peer = subprocess.Popen(inside(self.two, *program), stdin=pipe, stdout=pipe, text=True)
        self._running.callback(peer.wait)
        self._running.callback(peer.kill)
        assert peer.stdout is not None
        assert peer.stdout.readline() == "ready\n"
        return peer


@pytest.fixture(scope="module", params=["raw", "udp"])
def lab(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Laboratory]:
    with ExitStack() as running:
        folder = tmp_path_factory.mktemp(f"pgm-{request.param}")
        yield Laboratory(folder, request.param, running)


def bodies(count: int, size_max: int) -> list[bytes]:
    """Different from each other, in what they say and in length."""
    return [b"%04d" % at + b"x" * (at * 97 % size_max) for at in range(count)]


def message(ordinal: int, body: bytes) -> bytes:
    """A unit of another queue manager."""
    envelope = write_envelope(
        SrmpMessage(
            action="MSMQ:from afar",
            to=f"MSMQ:{MulticastName(*PLACE)}",
            id=write_message_id(GUID, ordinal),
            sent_at=int(time.time()),
            has_msmq=True,
            source_guid=GUID,
            ordinal=ordinal,
        )
    )
    content_type, payload = write_parts(envelope, body, b"", guid=GUID, number=ordinal)
    return write_unit(str(PLACE), [("Content-Type", content_type)], payload)


@pytest.mark.peer("openpgm", "namespaces")
@pytest.mark.spec("MC-MQSRM 2.1.2/1", "MC-MQSRM 2.1.2/2", "MC-MQSRM 3.1.7.9/2", "PGM/1")
def test_openpgm_receives_what_a_queue_manager_sends(lab: Laboratory) -> None:
    peer = lab.openpgm("receive", "60")
    queue = lab.qm.queue(f"MULTICAST={PLACE}")
    sent = bodies(60, 5_000)  # some fit into a packet, some need several fragments
    queue.send_many(sent, label="to all")
    assert peer.stdout is not None
    units = [bytes.fromhex(line) for line in peer.stdout]
    read = [read_unit(unit) for unit in units]
    parts = [read_parts(unit.content_type, unit.payload) for unit in read]
    assert [part.body for part in parts] == sent
    envelope = read_envelope(parts[0].envelope)
    assert (envelope.to, envelope.action) == (f"MSMQ:MULTICAST={PLACE}", "MSMQ:to all")
    assert read[0].head.startswith(b"POST 234.7.7.7:8123 HTTP/1.1\r\n")


@pytest.mark.peer("openpgm", "namespaces")
@pytest.mark.spec("MC-MQSRM 2.1.2/1", "MC-MQSRM 2.1.2/2", "MC-MQSRM 2.1.2/4")
def test_a_queue_manager_receives_what_openpgm_sends(lab: Laboratory) -> None:
    queue = lab.qm.create_queue(r".\private$\quotes", multicast=str(PLACE))
    also = lab.qm.create_queue(r".\private$\also", multicast=str(PLACE))
    other = lab.qm.create_queue(r".\private$\other", multicast=f"{PLACE.group}:9999")
    peer = lab.openpgm("send")
    assert peer.stdin is not None
    sent = bodies(200, 300)  # OpenPGM 5.3 does not survive units that it has to fragment
    for ordinal, body in enumerate(sent, 1):
        peer.stdin.write(message(ordinal, body).hex() + "\n")
    peer.stdin.close()
    wait_until(lambda: also.count() == len(sent), lambda: f"{queue.count()} came")
    got = [found.body for found in queue.browse()]
    assert got == sent
    found = queue.receive(timeout=5)
    assert found is not None
    assert found.id == f"{format_guid(GUID)}\\1"
    assert found.label == "from afar"
    assert other.count() == 0


class Found(NamedTuple):
    """What tshark found in a packet."""

    source: str
    kind: str
    alert: str
    severity: str
    malformed: str


def dissected(lab: Laboratory) -> list[Found]:
    fields = ("ip.src", "pgm.hdr.type", "ip.opt.ra", "_ws.expert.severity", "_ws.malformed")
    options = [] if lab.encapsulation == "raw" else ["-d", "udp.port==3055-3056,pgm"]
    shown = [word for field in fields for word in ("-e", field)]
    command = ["tshark", "-r", str(lab.capture), "-T", "fields", *shown, "-Y", "pgm", *options]
    command += ["-o", "pgm.check_checksum:TRUE"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [Found(*line.split("\t")) for line in output.splitlines()]


@pytest.mark.peer("openpgm", "namespaces", "tshark")
@pytest.mark.spec("PGM/1", "PGM/2", "PGM/5")
def test_tshark_finds_nothing_wrong_in_all_of_it(lab: Laboratory) -> None:
    """The conversations of the tests in front of this one, of both sides, with their repairs."""
    found = dissected(lab)
    kinds = Counter(int(packet.kind, 0) for packet in found)
    assert {SPM, ODATA, RDATA, NAK, NCF} <= kinds.keys()
    assert [packet for packet in found if packet.malformed] == []
    errors = [packet for packet in found if packet.severity and int(packet.severity, 0) >= 0x600000]
    assert errors == []
    if lab.encapsulation == "raw":
        for packet in [packet for packet in found if packet.source == OWN]:
            assert bool(packet.alert) == (int(packet.kind, 0) in (SPM, NCF, RDATA)), packet


def test_our_reader_agrees_with_what_the_sender_writes() -> None:
    unit = read_unit(message(7, b"body"))
    parts = read_parts(unit.content_type, unit.payload)
    assert (parts.body, read_envelope(parts.envelope).ordinal) == (b"body", 7)
