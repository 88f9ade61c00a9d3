"""`posthouse decode` of NCP: both directions of TCP, and datagrams."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.cli import main
from posthouse.cli.decode.ncp import is_ncp, ncp_extent, view_ncp
from posthouse.model.errors import RemoteProtocolError
from posthouse.model.qms import NWQueueJobStruct
from posthouse.wire.ncp import framing as ncp
from posthouse.wire.ncp.bindery_calls import LOGIN, ObjectPassword
from posthouse.wire.ncp.framing import Reply, Request, frame_reply, frame_request, write_reply
from posthouse.wire.ncp.queue_calls import CREATE_JOB, FINISH_JOB, FinishJob, QueueJobStructure

Q = 0x00015D03


def asked(call: Any, value: Any) -> bytes:
    return ncp.write_request(Request(ncp.REQUEST, 2, 1, 1, call.function, call.ask(value)))


CREATE = bytes.fromhex("1111 01 ff 01 ff 01100000") + bytes(15)
JOB = asked(CREATE_JOB, QueueJobStructure(Q, NWQueueJobStruct(job_type=7)))
FINISH = asked(FINISH_JOB, FinishJob(Q, 2, 9))
REFUSED = write_reply(Reply(ncp.REPLY, 2, 1, 1, 0xD5, 0, b""))


def decoded(capsys: pytest.CaptureFixture[str], file: Path) -> list[dict[str, Any]]:
    assert main.run(["decode", "--json", str(file)]) == main.DONE
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_stream_of_requests_is_told_call_by_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.bin"
    file.write_bytes(b"".join(map(frame_request, (CREATE, JOB, FINISH))))
    create, job, finish = decoded(capsys, file)
    assert create["kind"] == "NCP Create Service Connection"
    assert [header["name"] for header in job["headers"]] == [
        "NCP over TCP, Request",
        "NCP",
        "Create Queue Job And File",
    ]
    assert job["headers"][2]["fields"]["call"] == "23/0x79"
    assert job["headers"][2]["fields"]["job_type"] == 7
    assert finish["headers"][2]["fields"] == {
        "call": "23/0x83",
        "queue": Q,
        "number": 2,
        "charge": 9,
    }
    assert finish["offset"] == create["size"] + job["size"]


def test_replies_tell_their_completion_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "server.bin"
    file.write_bytes(frame_reply(REFUSED) + frame_reply(write_reply(Reply(ncp.REPLY, 3, 1, 1))))
    refused, done = decoded(capsys, file)
    assert refused["headers"][1]["fields"]["completion"] == "0xD5 ERR_NO_Q_JOB"
    assert done["headers"][1]["fields"]["completion"] == "0x00 success"


def test_a_datagram_is_told_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "datagram.hex"
    file.write_text(ncp.write_watchdog(5).hex())
    assert main.run(["decode", str(file)]) == main.DONE
    shown = capsys.readouterr().out
    assert "NCP Watchdog at offset 0, 10 bytes" in shown
    assert "connection" in shown


def test_passwords_are_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "login.bin"
    file.write_bytes(frame_request(asked(LOGIN, ObjectPassword(1, "ALICE", b"HIDDEN"))))
    assert main.run(["decode", str(file)]) == main.DONE
    shown = capsys.readouterr().out
    assert "Login Object" in shown
    assert "HIDDEN" not in shown
    assert b"HIDDEN".hex(" ") not in shown


def test_calls_that_are_not_served_are_named() -> None:
    data = ncp.write_subfunction(0x0A, b"\0\0\4DATA")
    view = view_ncp(ncp.write_request(Request(ncp.REQUEST, 2, 1, 1, 0x16, data)))
    assert view.headers[1].name == "Create Directory (not served)"


def test_what_is_cut_is_told_with_its_offset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cut.bin"
    file.write_bytes(frame_request(CREATE) + frame_request(FINISH)[:-1])
    assert main.run(["decode", "--json", str(file)]) != main.DONE
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 1
    assert "offset 41" in told.err


@given(st.sampled_from([b"", b"DmdT", b"tNcP", b"\x22\x22", b"\x33\x33"]), st.binary(max_size=400))
def test_any_bytes_are_shown_or_refused(front: bytes, rest: bytes) -> None:
    data = front + rest
    if is_ncp(data):
        with suppress(RemoteProtocolError):
            view_ncp(data[: ncp_extent(data, 0)])
