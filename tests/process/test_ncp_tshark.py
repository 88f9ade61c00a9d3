"""tshark dissects what our client and our server say to each other over NCP (qms-facts 9)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from posthouse.client.ncp.calls import NcpCalls
from posthouse.model.bindery import NWOT_JOB_QUEUE, NWOT_JOB_SERVER, NWOT_USER, SUPERVISOR
from posthouse.model.errors import QmsError
from posthouse.model.qms import NWQueueJobStruct
from posthouse.wire.ncp import bindery_calls as bindery
from posthouse.wire.ncp import functions
from posthouse.wire.ncp import queue_calls as queues
from posthouse.wire.ncp.calls import NcpCall
from posthouse.wire.ncp.functions import CALLS
from tests.process.ncp_house import QUEUE, DatagramRecording, NcpHouse, client
from tests.process.recording import Recording

pytestmark = pytest.mark.peer("tshark")

FIELDS = (
    *("ncp.type", "ncp.func", "ncp.subfunc", "ncp.completion_code", "ncp.connection"),
    *("_ws.malformed", "_ws.expert.message", "_ws.col.Info"),
)
PRINT_AREA = "Trailing stray characters"  # of a record that is not a print record (qms-facts 9)
REPLY = "0x3333"
JOB = NWQueueJobStruct(
    job_type=7, job_control_flags=0x10, job_description=b"month end", queue_record=b"\0\x08"
)


class Seen(NamedTuple):
    """A call with what became of it."""

    function: int
    subfunction: int | None
    completion: int


class Packet(NamedTuple):
    """What tshark says of a packet."""

    kind: str
    function: str
    subfunction: str
    completion: str
    connection: str
    malformed: str
    complaint: str
    info: str


class Tour:
    """Every call there is, most of them old and new, some of them refused; and what came of it."""

    def __init__(self, port: int, queue: int, *, udp: bool) -> None:
        self.queue = queue
        self.seen: list[Seen] = []
        self.root = client(port, SUPERVISOR, udp=udp)
        self.alice = client(port, "ALICE", udp=udp)
        self.server = client(port, "SERVER", NWOT_JOB_SERVER, udp=udp)
        self.clients = (self.root, self.alice, self.server)

    def ask(self, who: NcpCalls, call: NcpCall[Any, Any], *asked: Any) -> Any:
        """A call; None where it is refused."""
        code, answer = 0, None
        try:
            answer = who.link.ask(call, call.request.record(*asked))
        except QmsError as error:
            code = error.completion
        self.seen.append(Seen(call.function, call.subfunction, code))
        return None if answer is None else call.reply.read(answer)

    def run(self) -> None:
        self._session()
        self._bindery()
        for create, *calls in OLD_AND_NEW:
            self._jobs(create, calls)
        self._service()
        for who in self.clients:
            who.close()

    def _session(self) -> None:
        for call in (functions.SERVER_CLOCK, functions.END_OF_JOB, bindery.SERVER_INFORMATION):
            self.ask(self.alice, call)
        self.ask(self.alice, functions.NEGOTIATE, 1024)
        self.ask(self.alice, functions.NEGOTIATE_SIZE, 1032, 2)
        self.ask(self.alice, bindery.STATION_INFORMATION, self.alice.connection_number)
        self.ask(self.alice, bindery.LOGIN, NWOT_USER, "ALICE", b"WRONG")
        self.ask(self.alice, bindery.VERIFY_PASSWORD, NWOT_USER, "ALICE", b"WRONG")
        self.ask(self.alice, bindery.CHANGE_PASSWORD, NWOT_USER, "ALICE", b"OLD", b"NEW")
        self.ask(self.alice, bindery.LOGIN_KEY)
        self.ask(self.alice, bindery.KEYED_VERIFY, bytes(8), NWOT_USER, "ALICE")

    def _bindery(self) -> None:
        root, thing = self.root, (0x8001, "THING")
        self.ask(root, bindery.CREATE_OBJECT, 0, 0x31, *thing)
        self.ask(root, bindery.CREATE_OBJECT, 0, 0x31, *thing)
        self.ask(root, bindery.RENAME_OBJECT, *thing, "MATTER")
        self.ask(root, bindery.RENAME_OBJECT, 0x8001, "MATTER", "THING")
        self.ask(root, bindery.GET_OBJECT_ID, *thing)
        self.ask(root, bindery.GET_OBJECT_NAME, self.queue)
        self.ask(root, bindery.SCAN_OBJECT, 0xFFFFFFFF, 0xFFFF, "*")
        self.ask(root, bindery.OBJECT_SECURITY, 0x30, *thing)
        self.ask(root, bindery.CREATE_PROPERTY, *thing, 0, 0x31, "NOTE")
        self.ask(root, bindery.CREATE_PROPERTY, *thing, 2, 0x31, "FRIENDS")
        self.ask(root, bindery.PROPERTY_SECURITY, *thing, 0x30, "NOTE")
        self.ask(root, bindery.SCAN_PROPERTY, *thing, 0xFFFFFFFF, "*")
        self.ask(root, bindery.WRITE_PROPERTY, *thing, 1, False, "NOTE", b"value")
        self.ask(root, bindery.READ_PROPERTY, *thing, 1, "NOTE")
        member = (*thing, "FRIENDS", NWOT_USER, "ALICE")
        for call in (bindery.IS_IN_SET, bindery.ADD_TO_SET, bindery.IS_IN_SET):
            self.ask(root, call, *member)
        self.ask(root, bindery.DELETE_FROM_SET, *member)
        self.ask(root, bindery.DELETE_PROPERTY, *thing, "NOTE")
        self.ask(root, bindery.ACCESS_LEVEL)
        self.ask(self.alice, bindery.DELETE_OBJECT, *thing)
        self.ask(root, bindery.DELETE_OBJECT, *thing)
        made = self.ask(root, queues.CREATE_QUEUE, 3, "PRINTER", 0, "SYS:SYSTEM")
        self.ask(self.alice, queues.DESTROY_QUEUE, made.queue)
        self.ask(root, queues.DESTROY_QUEUE, made.queue)

    def _jobs(self, create: NcpCall[Any, Any], calls: list[NcpCall[Any, Any]]) -> None:
        start, read, change, size, status, set_status, remove = calls
        alice, queue = self.alice, self.queue
        job = self.ask(alice, create, queue, JOB).job
        handle, number = job.job_file_handle, job.job_number
        self.ask(alice, functions.WRITE_FILE, 0, handle, 0, b"data of the job")
        self.ask(alice, functions.CURRENT_SIZE, 0, handle)
        self.ask(alice, start, queue, number)
        self.ask(alice, start, queue, number)
        self.ask(alice, functions.CLOSE_FILE, 0, handle)
        entry = self.ask(alice, read, queue, number).job
        self.ask(alice, change, queue, entry._replace(job_type=8))
        self.ask(alice, size, queue, number)
        self.ask(alice, status, queue)
        self.ask(alice, set_status, queue, 0)
        self.ask(self.server, remove, queue, number)
        self.ask(alice, remove, queue, number)

    def _service(self) -> None:
        alice, server, queue = self.alice, self.server, self.queue
        for _ in range(8):
            job = self.ask(alice, queues.CREATE_JOB, queue, JOB).job
            self.ask(alice, functions.WRITE_FILE, 0, job.job_file_handle, 0, b"0123456789")
            self.ask(alice, queues.START_JOB, queue, job.job_number)
        self.ask(alice, queues.LIST_JOBS, queue, 1)
        self.ask(alice, queues.OLD_LIST_JOBS, queue)
        self.ask(alice, queues.LIST_BY_FORMS, queue, 1, (7, 8))
        self.ask(alice, queues.CHANGE_POSITION, queue, job.job_number, 1)
        self.ask(alice, queues.OLD_CHANGE_POSITION, queue, job.job_number, 2)
        self.ask(alice, queues.MOVE_JOB, queue, job.job_number, 0x7777)
        self.ask(server, queues.SERVICE_JOB, queue, 0xFFFF)  # not attached yet
        self.ask(alice, queues.ATTACH, queue)
        self.ask(server, queues.ATTACH, queue)
        self.ask(server, queues.SET_SERVER_STATUS, queue, b"busy")
        own = server.get_object_id("SERVER", NWOT_JOB_SERVER)
        self.seen.append(Seen(0x17, 0x35, 0))
        for call in (queues.SERVER_STATUS, queues.OLD_SERVER_STATUS):
            self.ask(alice, call, queue, own, server.connection_number)
        for service, rights, end, *charge in SERVICES:
            taken = self.ask(server, service, queue, *_wanted(service)).job
            for offset in (0, 3, 20):
                self.ask(server, functions.READ_FILE, 0, taken.job_file_handle, offset, 4)
            self.ask(server, rights, queue, taken.job_number)
            self.ask(server, queues.RESTORE_RIGHTS)
            self.ask(server, end, queue, taken.job_number, *charge)
        self.ask(server, queues.RESTORE_RIGHTS)
        self.ask(server, queues.SERVICE_JOB, queue, 99)
        self.ask(server, queues.DETACH, queue)
        self.ask(server, queues.DETACH, queue)
        self.ask(server, functions.LOGOUT)


def _wanted(service: NcpCall[Any, Any]) -> tuple[Any, ...]:
    return (1, (7, 8)) if service is queues.SERVICE_BY_FORMS else (0xFFFF,)


OLD_AND_NEW: Any = [
    (
        queues.CREATE_JOB,
        *(queues.START_JOB, queues.READ_JOB, queues.CHANGE_JOB, queues.FILE_SIZE),
        *(queues.READ_STATUS, queues.SET_STATUS, queues.REMOVE_JOB),
    ),
    (
        queues.OLD_CREATE_JOB,
        *(queues.OLD_START_JOB, queues.OLD_READ_JOB, queues.OLD_CHANGE_JOB, queues.OLD_FILE_SIZE),
        *(queues.OLD_READ_STATUS, queues.OLD_SET_STATUS, queues.OLD_REMOVE_JOB),
    ),
]
SERVICES: Any = [
    (queues.SERVICE_JOB, queues.CLIENT_RIGHTS, queues.FINISH_JOB, 3),
    (queues.OLD_SERVICE_JOB, queues.OLD_CLIENT_RIGHTS, queues.OLD_FINISH_JOB, 3),
    (queues.SERVICE_BY_FORMS, queues.CLIENT_RIGHTS, queues.ABORT_JOB),
    (queues.SERVICE_JOB, queues.CLIENT_RIGHTS, queues.OLD_ABORT_JOB),
]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NcpHouse]:
    with ExitStack() as running:
        made = NcpHouse(tmp_path_factory.mktemp("ncp"), running)
        made.passwd(SUPERVISOR, NWOT_USER)
        yield made


class Heard(NamedTuple):
    """A tour, and what tshark heard of it."""

    tour: Tour
    packets: list[Packet]


@pytest.fixture(scope="module", params=["tcp", "udp"])
def heard(
    request: pytest.FixtureRequest, house: NcpHouse, tmp_path_factory: pytest.TempPathFactory
) -> Heard:
    file = tmp_path_factory.mktemp("capture") / "ncp.pcap"
    udp = request.param == "udp"
    recorder: Any = DatagramRecording if udp else Recording
    with recorder(file, house.port, 524) as recording:
        tour = Tour(recording.port, house.queue, udp=udp)
        tour.run()
    return Heard(tour, tshark(file))


def tshark(file: Path) -> list[Packet]:
    options = [word for name in FIELDS for word in ("-e", name)]
    command = ["tshark", "-n", "-r", str(file), "-Y", "ncp", "-T", "fields", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return [Packet(*line.split("\t")) for line in done.stdout.splitlines()]


def test_the_tour_makes_every_call(heard: Heard) -> None:
    made = {(seen.function, seen.subfunction) for seen in heard.tour.seen}
    of_logins = {(0x17, 0x18)}  # made by the login itself
    assert made | of_logins == CALLS.keys()


@pytest.mark.spec("NCP TCP/1", "NCP TCP/2", "NCP UDP/1")
def test_nothing_is_malformed(heard: Heard) -> None:
    assert [packet for packet in heard.packets if packet.malformed] == []
    complaints = {
        complaint
        for packet in heard.packets
        if packet.completion in ("", "0x00")  # it complains of refusals as such
        for complaint in packet.complaint.split(",")
    }
    assert complaints <= {"", PRINT_AREA}


@pytest.mark.spec("NCP framing/2", "NCP framing/3")
def test_tshark_hears_the_calls_and_codes_that_we_meant(heard: Heard) -> None:
    answered = [
        Seen(
            int(packet.function, 0),
            int(packet.subfunction, 0) if packet.subfunction else None,
            int(packet.completion, 0),
        )
        for packet in heard.packets
        if packet.kind == REPLY and packet.function not in ("0x01", "0x05")
    ]
    begun = len(answered) - len(heard.tour.seen)  # negotiation and logins of the three
    assert answered[begun:] == heard.tour.seen
    assert {seen.function for seen in answered[:begun]} == {0x61, 0x17}


@pytest.mark.spec("NCP framing/3", "NCP framing/4")
def test_connections_are_created_and_destroyed(heard: Heard) -> None:
    kinds = [packet.kind for packet in heard.packets]
    assert kinds.count("0x1111") == kinds.count("0x5555") == 3
    requests = sum(kind in ("0x1111", "0x2222", "0x5555") for kind in kinds)
    assert kinds.count(REPLY) == requests


def test_names_are_where_tshark_looks_for_them(heard: Heard) -> None:
    told = " ".join(packet.info for packet in heard.packets)
    for words in ("Keyed Object Login: ALICE", "Close File And Start Queue Job", "Create Queue"):
        assert words in told


def test_a_queue_of_the_house_is_left_as_it_was(house: NcpHouse, heard: Heard) -> None:
    with house.client("ALICE") as alice:
        for number in alice.get_queue_job_list(house.queue).numbers:
            with suppress(QmsError):
                alice.remove_job_from_queue(house.queue, number)
        assert alice.read_queue_current_status(house.queue).jobs == 0
        assert alice.get_object_name(house.queue) == (QUEUE, NWOT_JOB_QUEUE)
