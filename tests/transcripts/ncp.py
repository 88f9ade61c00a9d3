"""Conversations of the NetWare Core Protocol: a client and a server in memory, over TCP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from posthouse.cli.decode.command import split
from posthouse.model.errors import QmsError
from posthouse.model.qms import NWQueueJobStruct
from posthouse.wire.ncp.calls import NcpCall
from posthouse.wire.ncp.functions import CALLS
from tests.protocols.job_queue.rig import JOB_SERVER, Line, NcpRig, TcpLine
from tests.transcripts.recorder import Recorder

JOB_FIELDS = ("job_number", "job_position", "job_file_handle", "client_id", "job_description")
BY_NUMBER = {call.number: call for call in CALLS.values()}
BYTES_SHOWN = 48


class House:
    """A file server with a job queue, and every PDU of its clients."""

    def __init__(self, title: str) -> None:
        self.rig = NcpRig()
        self.rig.user("ALICE")
        self.rig.user("PRINTER", JOB_SERVER)
        self.queue = self.rig.queue(users="ALICE", servers=f"PRINTER/{JOB_SERVER}")
        self.script = Recorder(lambda: self.rig.clock.now_ms, title)
        self.names: dict[int, str] = {}
        self._asked: NcpCall[Any, Any] | None = None

    @contextmanager
    def heard(self) -> Iterator[None]:
        """What is sent goes into the script."""
        deliver, send = TcpLine.deliver, Line.send

        def tapped_deliver(line: TcpLine, data: bytes) -> None:
            self._show(f"{self._name(line)} -> ALPHA", data)
            deliver(line, data)

        def tapped_send(line: Line, *args: Any) -> None:
            self._show(f"ALPHA -> {self._name(line)}", args[0])
            send(line, *args)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TcpLine, "deliver", tapped_deliver)
            patch.setattr(Line, "send", tapped_send)
            yield

    def _name(self, line: Line) -> str:
        return self.names.get(id(line), "CLIENT")

    def _show(self, way: str, data: bytes) -> None:
        """A request by the name of its call; a reply with the fields of that call."""
        (found,) = split(data)
        last = found.view.headers[-1]
        if found.view.kind == "NCP Request":
            fields = {name: value for name, value in last.fields.items() if name != "reserved"}
            self._asked = BY_NUMBER.get(str(fields.get("call")))
            self.script.line(way, last.name, **_short(fields))
        elif found.view.kind == "NCP Reply":
            answer: dict[str, Any] = {"completion": last.fields["completion"]}
            if self._asked is not None and last.fields["data"]:
                record = self._asked.reply.read(last.fields["data"])
                answer |= record[0]._asdict() if hasattr(record[0], "_asdict") else record._asdict()
            self.script.line(way, "reply", **_short(answer))
        else:
            self._asked = None
            self.script.line(way, found.view.kind, connection=last.fields["connection"])


def _short(fields: dict[str, Any]) -> dict[str, Any]:
    """Of a job what the conversation is about; bytes without the zeros that fill them up."""
    if "job_number" in fields:
        fields = {k: fields[k] for k in ("call", "completion", "queue", *JOB_FIELDS) if k in fields}
    kept = {key: _cut(value) for key, value in fields.items()}
    return {key: value for key, value in kept.items() if value not in (b"", None)}


def _cut(value: Any) -> Any:
    return value.rstrip(b"\0")[:BYTES_SHOWN] if isinstance(value, bytes) else value


def login() -> str:
    """A connection, a login without the password on the wire, and one with a wrong password."""
    house = House("NCP: a connection, a keyed login, a wrong password, the end")
    script = house.script
    with house.heard():
        script.note("Create Service Connection: the reply has the connection number.")
        client = house.rig.client()
        script.note("The client answers a fresh key with the hash of the password and the key.")
        client.login("ALICE", password="SECRET")
        client.get_bindery_access_level()
        client.logout()
        script.note("A wrong password.")
        with pytest.raises(QmsError):
            client.login("ALICE", password="GUESSED")
        client.close()
    return script.text()


def submit() -> str:
    """A job is created open, written and started."""
    house = House("NCP: a client submits a job")
    client = house.rig.logged_in("ALICE")
    house.names[id(client.link)] = "ALICE"
    with house.heard():
        house.script.note("The job is created open: its reply has its number and a file handle.")
        wanted = NWQueueJobStruct(job_type=7, job_description=b"monthly report")
        job = client.create_queue_file(house.queue, wanted)
        client.write_file(job.job_file_handle, 0, b"Dear all, ")
        client.write_file(job.job_file_handle, 10, b"sales are up.")
        house.script.note("It is not serviced before its file is closed.")
        client.close_file_and_start_queue_job(house.queue, job.job_number)
        client.get_queue_job_list(house.queue)
        client.read_queue_current_status(house.queue)
        house.script.note("What the caller may not do is refused with a completion code.")
        with pytest.raises(QmsError):
            client.set_queue_current_status(house.queue, 1)
    return house.script.text()


def service() -> str:
    """A queue server attaches, takes a job, reads its file and finishes it."""
    house = House("NCP: a queue server services a job")
    alice = house.rig.logged_in("ALICE")
    job = alice.create_queue_file(house.queue, NWQueueJobStruct(job_description=b"monthly report"))
    alice.write_file(job.job_file_handle, 0, b"Dear all, sales are up.")
    alice.close_file_and_start_queue_job(house.queue, job.job_number)
    server = house.rig.logged_in("PRINTER", JOB_SERVER)
    house.names[id(server.link)] = "PRINTER"
    with house.heard():
        server.attach_queue_server_to_queue(house.queue)
        house.script.note("The first job that may be serviced; its file is open for the server.")
        taken = server.service_queue_job(house.queue)
        assert server.read_file(taken.job_file_handle, 0, 100) == b"Dear all, sales are up."
        house.script.note("For a while the server has the rights of the job's client.")
        server.change_to_client_rights(house.queue, taken.job_number)
        server.restore_queue_server_rights()
        house.script.note("The job is done, and gone. There is no other.")
        server.finish_servicing_queue_job(house.queue, taken.job_number)
        with pytest.raises(QmsError):
            server.service_queue_job(house.queue)
        server.detach_queue_server_from_queue(house.queue)
    return house.script.text()


CONVERSATIONS = {"login": login, "submit-job": submit, "service-job": service}
