"""The objects of `posthouse.qms`, embedded and over NCP: the same, whatever the door."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import posthouse
from posthouse import qms
from posthouse.model.bindery import NWOT_USER
from posthouse.model.errors import QmsError
from posthouse.protocols.ncp.settings import NcpSettings
from posthouse.qms import FileServer, JobQueue
from tests.protocols.job_queue.rig import PASSWORD, NcpRig

Enter = Callable[..., FileServer]
JOB_SERVER = 5


@pytest.fixture(params=["embedded", "ncp"])
def enter(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Enter]:
    """`enter(name, type)`: a station of somebody; objects other than SUPERVISOR have PASSWORD."""
    if request.param == "ncp":
        rig = NcpRig(NcpSettings(clear_text_logins=True))
        rig.user("SUPERVISOR")
        yield lambda name, type=NWOT_USER: FileServer(rig.logged_in(name, type))
        return
    with posthouse.open(tmp_path / "home", name="ALPHA") as qm:
        yield lambda name, type=NWOT_USER: qms.on(qm, name, type)


@pytest.fixture
def root(enter: Enter) -> FileServer:
    return enter("SUPERVISOR")


@pytest.fixture
def queue(root: FileServer) -> JobQueue:
    """Everybody may submit; SERVER services, SUPERVISOR operates."""
    made = root.create_queue("WORK", users=["EVERYONE"], operators=["SUPERVISOR"])
    root.create_server("SERVER", PASSWORD, queues=[made])
    return made


def refused(code: int, call: Callable[..., object], *args: object) -> None:
    with pytest.raises(QmsError) as caught:
        call(*args)
    assert caught.value.completion == code


def test_objects_of_the_bindery(root: FileServer) -> None:
    bindery = root.bindery
    made = {name: bindery.create(name, "user") for name in ("ANNA", "ARNO", "BERT")}
    assert [one.name for one in bindery.objects("user", "A*")] == ["ANNA", "ARNO"]
    assert [one.id for one in bindery.objects(1, "BERT")] == [made["BERT"]]
    assert {one.name for one in bindery.objects()} >= {"SUPERVISOR", "EVERYONE", "ALPHA", *made}
    assert bindery.id("anna", "user") == made["ANNA"]
    assert bindery.name(made["ARNO"]) == ("ARNO", 1)
    bindery.delete("BERT", "user")
    refused(0xFC, bindery.id, "BERT", "user")


@pytest.mark.spec("QMS Creating Queue Servers/5", "QMS Q_SERVERS/6")
def test_a_new_queue_server_gets_an_account_where_there_are_accounts(root: FileServer) -> None:
    root.create_server("FIRST")
    assert list(root.bindery.properties("FIRST", "job_server", "ACCOUNT_*")) == []
    (there,) = root.bindery.objects("file_server")
    root.bindery.create_set(there.name, "file_server", "ACCOUNT_SERVERS")
    root.create_server("SECOND")
    (account,) = root.bindery.properties("SECOND", "job_server", "ACCOUNT_*")
    assert (account.name, account.flags, account.security) == ("ACCOUNT_BALANCE", 0, 0x32)
    assert root.bindery.read("SECOND", "job_server", "ACCOUNT_BALANCE") == bytes(128)


@pytest.mark.parametrize("size", [0, 1, 128, 129, 300])
def test_items_have_values_of_any_length(root: FileServer, size: int) -> None:
    value = bytes(range(1, 101)) * 3
    root.bindery.create("ANNA", "user")
    root.bindery.create_item("ANNA", "user", "NOTE", value[:size])
    whole = max(-(-size // 128), 1) * 128
    assert root.bindery.read("ANNA", "user", "NOTE") == value[:size].ljust(whole, b"\0")
    root.bindery.write("ANNA", "user", "NOTE", b"short")
    assert root.bindery.read("ANNA", "user", "NOTE") == b"short".ljust(128, b"\0")
    names = [one.name for one in root.bindery.properties("ANNA", "user", "N*")]
    assert names == ["NOTE"]


def test_sets_have_any_number_of_members(root: FileServer) -> None:
    """In several segments of 32 each."""
    bindery = root.bindery
    bindery.create("STAFF", "group")
    bindery.create_set("STAFF", "group", "FRIENDS")
    assert bindery.members("STAFF", "group", "FRIENDS") == []
    ids = []
    for number in range(70):
        ids.append(bindery.create(f"USER{number}", "user"))
        bindery.add("STAFF", "group", "FRIENDS", f"USER{number}", "user")
    assert bindery.members("STAFF", "group", "FRIENDS") == ids
    bindery.remove("STAFF", "group", "FRIENDS", "USER33", "user")
    assert bindery.members("STAFF", "group", "FRIENDS") == ids[:33] + ids[34:]
    assert bindery.contains("STAFF", "group", "FRIENDS", "USER34", "user")
    assert not bindery.contains("STAFF", "group", "FRIENDS", "USER33", "user")
    refused(0xFB, bindery.members, "STAFF", "group", "NOBODY")
    bindery.create_item("STAFF", "group", "ITEM", b"x")
    refused(0xFB, bindery.members, "STAFF", "group", "ITEM")


def test_passwords_and_logins(root: FileServer, enter: Enter) -> None:
    for name in ("ANNA", "BERT"):
        root.bindery.create(name, "user")
        root.bindery.set_password(name, "user", PASSWORD)
    station = enter("ANNA")
    station.logout()
    station.login("BERT", PASSWORD)
    assert station.door.get_bindery_access_level().id == root.bindery.id("BERT", 1)
    refused(0xFF, station.login, "ANNA", "wrong")


def test_queues_are_found_by_name_and_type(root: FileServer) -> None:
    printing = root.create_queue("BOTH", "print_queue")
    assert root.queue("both").id == printing.id
    jobs = root.create_queue("BOTH", "job_queue")
    assert root.queue("both").id == jobs.id
    assert root.queue("both", "print_queue").id == printing.id
    own = root.create_queue("OWN", 0x8123)
    assert root.queue("own").id == own.id
    assert [one.id for one in root.queues()] == [printing.id, jobs.id, own.id]
    assert [one.id for one in root.queues("job_queue")] == [jobs.id]
    assert repr(jobs) == f"JobQueue('BOTH', 'job_queue', id={jobs.id:08X})"
    refused(0xD1, root.queue, "NOWHERE")
    refused(0xD1, root.queue, "OWN", "job_queue")
    jobs.destroy()
    assert root.queue("both").id == printing.id


def test_members_are_users_unless_a_word_says_otherwise(root: FileServer) -> None:
    root.bindery.create("STAFF", "group")
    root.bindery.create("ANNA", "user")
    queue = root.create_queue("WORK", users=["group:STAFF", ("ANNA", 1), "everyone"])
    members = root.bindery.members("WORK", "job_queue", "Q_USERS")
    wanted = [("STAFF", 2), ("ANNA", 1), ("EVERYONE", 2)]
    assert set(members) == {root.bindery.id(*one) for one in wanted}
    queue.remove("Q_USERS", "EVERYONE")
    left = set(members) - {root.bindery.id("EVERYONE", "group")}
    assert set(root.bindery.members("WORK", "job_queue", "Q_USERS")) == left


def test_a_queue_that_is_stopped_takes_no_jobs(queue: JobQueue) -> None:
    queue.set_status(0x01)
    assert queue.status().status == 0x01
    refused(0xDA, queue.submit, b"x")
    queue.set_status(0)
    queue.submit(b"x")
    assert queue.status().jobs == 1


def test_jobs_in_pieces_have_what_was_asked_for(queue: JobQueue) -> None:
    job = queue.create(
        "two pieces", type=9, server=7, auto_start=True, restart=True, hold=True, record=b"r"
    )
    assert job.entry().job_control_flags == 0x08 | 0x10 | 0x20 | 0x40
    job.write(b"one")
    job.write(b" two")
    started = job.start()
    entry = started.entry()
    assert entry.job_control_flags == 0x08 | 0x10 | 0x40
    assert (entry.description, entry.job_type, entry.target_server_id) == ("two pieces", 9, 7)
    assert entry.queue_record[:2] == b"r\0"
    assert started.size() == 7
    assert repr(started) == "Job('WORK', 1)"


def test_a_job_that_cannot_be_written_leaves_nothing(queue: JobQueue) -> None:
    with pytest.raises(ValueError, match="no data"), queue.create() as job:
        raise ValueError("no data")
    assert queue.numbers() == []
    with pytest.raises(ConnectionError), queue.create() as job:
        raise ConnectionError  # nobody could be told
    assert queue.numbers() == [job.number]
    job.abort()
    assert queue.numbers() == []


def test_jobs_are_held_moved_and_removed(root: FileServer, queue: JobQueue) -> None:
    first, second, third = (queue.submit(b"%d" % n) for n in range(3))
    first.hold()
    assert first.entry().job_control_flags == 0x40
    first.hold(operator=True)
    first.release()
    assert first.entry().job_control_flags == 0x80
    first.release(operator=True)
    assert first.entry().job_control_flags == 0
    third.move(1)
    assert [job.number for job in queue] == [third.number, first.number, second.number]
    other = root.create_queue("OTHER", users=["SUPERVISOR"], operators=["SUPERVISOR"])
    other.submit(b"there")
    moved = second.move_to(other)
    assert (moved.queue.name, moved.number, moved.size()) == ("OTHER", 2, 1)
    first.remove()
    assert queue.numbers() == [third.number]
    assert queue.job(third.number).size() == 1


def test_more_numbers_than_one_answer_has(queue: JobQueue) -> None:
    numbers = [queue.submit(b"").number for _ in range(130)]
    assert queue.numbers() == numbers


def test_a_station_services_jobs_by_type(queue: JobQueue, enter: Enter) -> None:
    for type in (1, 2, 3):
        queue.submit(b"%d" % type * 100_000, type=type, restart=True)
    with enter("SERVER", JOB_SERVER) as station:
        with station.queue("WORK").attach() as attached:
            assert len(queue.status().servers) == 1
            assert attached.service(9) is None
            taken = attached.service(3, 2)
            assert taken is not None
            assert (taken.number, taken.taken.job_type) == (2, 2)
            assert taken.read() == b"2" * 100_000
            assert [len(piece) for piece in taken.chunks(40_000)] == [40_000, 40_000, 20_000]
            attached.set_status(b"busy")
            server = station.bindery.id("SERVER", JOB_SERVER)
            (_, number) = queue.status().servers[0]
            record = queue.door.read_queue_server_current_status(queue.id, server, number)
            assert record == b"busy".ljust(64, b"\0")
            taken.finish()
            assert queue.numbers() == [1, 3]
            again = attached.service()
            assert again is not None
            again.abort()
            assert queue.numbers() == [1, 3]
            queue.set_status(0x04)
            refused(0xDA, attached.service)
        assert queue.status().servers == ()
        refused(0xD9, attached.service)


def test_a_server_takes_the_rights_of_its_client_for_a_while(
    root: FileServer, queue: JobQueue, enter: Enter
) -> None:
    root.bindery.create("ANNA", "user")
    root.bindery.set_password("ANNA", "user", PASSWORD)
    with enter("ANNA") as anna:
        anna.queue("WORK").submit(b"x")
    with enter("SERVER", JOB_SERVER) as station, station.queue("WORK").attach() as attached:
        own = station.door.get_bindery_access_level().id
        taken = attached.service()
        assert taken is not None
        with taken.as_client():
            assert station.door.get_bindery_access_level().id == root.bindery.id("ANNA", 1)
        assert station.door.get_bindery_access_level().id == own
        refused(0xD9, station.door.restore_queue_server_rights)
        taken.finish()
