"""Stations over plain HTTP: whose they are; jobs in one request and in several, files as bytes."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from posthouse.model.roles import Role
from tests.protocols.admin.api_rig import ORDERS, ApiRig, with_api

OCTETS = {"Content-Type": "application/octet-stream"}
API = "/api/v1"
QUEUE = API + "/job-queues/WORK"


async def made(rig: ApiRig) -> None:
    body = {"name": "WORK", "users": ["EVERYONE"], "operators": ["SUPERVISOR"]}
    assert (await rig.post(API + "/job-queues", body)).status == 201


async def station(rig: ApiRig, **body: Any) -> str:
    reply = await rig.post(API + "/stations", body)
    assert reply.status == 201, reply
    assert reply.json["lease_s"] == 60.0
    return str(reply.json["station"])


def test_a_job_is_submitted_whole_in_one_request(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await made(rig)
        file = b64encode(b"SELECT 1").decode()
        reply = await rig.post(QUEUE + "/jobs", {"file": file, "description": "whole"})
        assert (reply.status, reply.json["flags"], reply.json["file_size"]) == (201, [], 8)
        without = await rig.post(QUEUE + "/jobs", {"description": "open"})
        assert (without.status, without.json["error"]["name"]) == (422, "ERR_NO_Q_JOB_RIGHTS")

    with_api(tmp_path, work)


def test_a_job_is_written_piece_by_piece_by_its_station(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await made(rig)
        mine, other = await station(rig), await station(rig)
        number = (await rig.post(f"{QUEUE}/jobs?station={mine}", {})).json["number"]
        job = f"{QUEUE}/jobs/{number}"
        for offset, piece in ((3, b"def"), (0, b"abc")):
            path = f"{job}/file?station={mine}&offset={offset}"
            reply = await rig.ask("PUT", path, raw=piece, headers=OCTETS)
            assert reply.status == 200, reply
        path = f"{job}/file?station={other}"
        refused = await rig.ask("PUT", path, raw=b"x", headers=OCTETS)
        assert refused.json["error"]["name"] == "INVALID_FILE_HANDLE"
        path = f"{job}/file?station={mine}"
        assert (await rig.ask("PUT", path, {"not": "bytes"})).status == 415
        assert (await rig.post(f"{job}/start?station={other}")).status == 422
        started = await rig.post(f"{job}/start?station={mine}")
        assert (started.json["flags"], started.json["file_size"]) == ([], 6)

    with_api(tmp_path, work)


def test_a_server_takes_a_job_and_reads_its_bytes(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await made(rig)
        await rig.post(API + "/bindery/objects", {"name": "S", "type": "job_server"})
        path = API + "/bindery/objects/job_queue/WORK/properties/Q_SERVERS/add"
        await rig.post(path, {"name": "S", "type": "job_server"})
        await rig.post(QUEUE + "/jobs", {"file": b64encode(b"\0ab data").decode()})
        key = await station(rig, name="S", type="job_server")
        assert (await rig.post(f"{QUEUE}/attach?station={key}")).status == 200
        number = (await rig.post(f"{QUEUE}/service?station={key}", {})).json["number"]
        job = f"{QUEUE}/jobs/{number}"
        reply = await rig.get(f"{job}/file?station={key}&offset=1&count=2")
        assert (reply.headers["Content-Type"], reply.text) == (OCTETS["Content-Type"], "ab")
        progress = {"done": 1, "total": 2, "text": "half"}
        await rig.post(f"{job}/progress?station={key}", progress)
        assert (await rig.get(job)).json["progress"] == progress
        assert (await rig.ask("DELETE", f"{API}/stations/{key}")).status == 200
        ended = (await rig.get(API + "/job-history")).json["jobs"]
        assert [row["outcome"] for row in ended] == ["failed"]  # its server was lost

    with_api(tmp_path, work)


@pytest.mark.parametrize("end", ["finish", "remove", "detach", "lost", "again"])
def test_the_token_of_a_client_ends_with_the_service_of_his_job(tmp_path: Path, end: str) -> None:
    async def work(rig: ApiRig) -> None:
        await made(rig)
        await rig.post(API + "/bindery/objects", {"name": "S", "type": "job_server"})
        path = API + "/bindery/objects/job_queue/WORK/properties/Q_SERVERS/add"
        await rig.post(path, {"name": "S", "type": "job_server"})
        await rig.post(QUEUE + "/jobs", {"file": "", "restart": True})
        key = await station(rig, name="S", type="job_server")
        await rig.post(f"{QUEUE}/attach?station={key}")
        number = (await rig.post(f"{QUEUE}/service?station={key}", {})).json["number"]
        job = f"{QUEUE}/jobs/{number}"
        token = (await rig.post(f"{job}/token?station={key}", {})).json["token"]
        assert (await rig.get(API + "/job-queues", token=token)).status == 200
        method, path = {
            "finish": ("POST", f"{job}/finish?station={key}"),
            "remove": ("DELETE", job),
            "detach": ("POST", f"{QUEUE}/detach?station={key}"),
            "lost": ("DELETE", f"{API}/stations/{key}"),
            "again": ("POST", f"{job}/token?station={key}"),
        }[end]
        reply = await rig.ask(method, path, {} if end in ("finish", "again") else None)
        assert reply.status in (200, 201), reply
        assert (await rig.get(API + "/job-queues", token=token)).status == 401

    with_api(tmp_path, work)


def test_a_queue_whose_operators_cannot_be_is_not_created(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.post(API + "/bindery/objects", {"name": "S", "type": "job_server"})
        body = {"name": "WORK", "operators": ["job_server:S"]}
        refused = await rig.post(API + "/job-queues", body)
        assert refused.json["error"]["name"] == "NO_SUCH_OBJECT"
        assert (await rig.get(API + "/job-queues")).json["queues"] == []

    with_api(tmp_path, work)


@pytest.mark.parametrize("bad", [{"submit_from": r".\private$\none"}, {"response_queue": "=="}])
def test_a_change_of_a_queue_is_made_whole_or_not_at_all(
    tmp_path: Path, bad: dict[str, str]
) -> None:
    async def work(rig: ApiRig) -> None:
        await made(rig)
        before = (await rig.get(QUEUE)).json
        for body in (bad, {"response_queue": ORDERS} | bad):
            refused = await rig.ask("PATCH", QUEUE, {"status": ["no_new_jobs"]} | body)
            assert refused.status in (404, 422), refused
            assert (await rig.get(QUEUE)).json == before
        both = await rig.ask("PATCH", QUEUE, {"status": ["no_new_jobs"], "response_queue": ORDERS})
        assert (both.json["status"], both.json["response_queue"]) == (["no_new_jobs"], ORDERS)

    with_api(tmp_path, work)


def test_who_is_no_operator_binds_no_queue_with_its_status(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        assert (await rig.post(API + "/job-queues", {"name": "WORK"})).status == 201
        body = {"status": ["no_new_jobs"], "response_queue": ORDERS}
        assert (await rig.ask("PATCH", QUEUE, body)).status == 422
        assert (await rig.get(QUEUE)).json["response_queue"] == ""

    with_api(tmp_path, work)


@pytest.mark.parametrize("year", [1979, 2080, 2100])
def test_a_job_that_is_to_wait_for_another_century_is_refused(tmp_path: Path, year: int) -> None:
    async def work(rig: ApiRig) -> None:
        await made(rig)
        moment = {"target_time": f"{year}-06-01T00:00:00Z"}
        refused = await rig.post(QUEUE + "/jobs", {"file": ""} | moment)
        assert refused.json["error"]["name"] == "MQ_ERROR_INVALID_PARAMETER"
        late = {"file": "", "target_time": "2079-06-01T00:00:00Z"}
        job = (await rig.post(QUEUE + "/jobs", late)).json
        assert job["target_time"] == late["target_time"]
        changed = await rig.ask("PATCH", f"{QUEUE}/jobs/{job['number']}", moment)
        assert changed.json["error"]["name"] == "MQ_ERROR_INVALID_PARAMETER"
        assert (await rig.get(f"{QUEUE}/jobs/{job['number']}")).json["target_time"] == (
            late["target_time"]
        )

    with_api(tmp_path, work)


def test_the_history_has_the_jobs_of_queues_that_one_may_look_into(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await made(rig)
        await rig.post(API + "/job-queues", {"name": "CLOSED", "users": ["SUPERVISOR"]})
        file = b64encode(b"x").decode()
        for queue in ("WORK", "CLOSED"):
            jobs = f"{API}/job-queues/{queue}/jobs"
            reply = await rig.post(jobs, {"file": file})
            assert reply.status == 201, reply
            assert (await rig.ask("DELETE", f"{jobs}/{reply.json['number']}")).status == 200
        alice = await rig.user("alice")
        for token, queues in (("", ["WORK", "CLOSED"]), (alice, ["WORK"])):
            options = {"token": token} if token else {}
            found = await rig.get(API + "/job-history", **options)
            assert [row["queue"] for row in found.json["jobs"]] == queues

    with_api(tmp_path, work)


def test_strangers_do_not_learn_what_a_queue_is_bound_to(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.post(API + "/job-queues", {"name": "WORK"})
        bound = await rig.ask("PATCH", QUEUE, {"response_queue": ORDERS})
        assert bound.json["response_queue"] == ORDERS
        alice = await rig.user("alice")
        assert (await rig.get(QUEUE, token=alice)).json["response_queue"] == ""

    with_api(tmp_path, work)


def test_the_next_user_of_a_name_inherits_no_tokens(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        alice = await rig.user("alice")
        assert (await rig.get(API + "/job-queues", token=alice)).status == 200
        path = API + "/bindery/objects"
        assert (await rig.ask("DELETE", path + "/user/ALICE")).status == 200
        assert (await rig.post(path, {"name": "ALICE", "type": "user"})).status == 201
        assert (await rig.get(API + "/job-queues", token=alice)).status == 401

    with_api(tmp_path, work)


def test_a_station_is_its_callers_alone(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await made(rig)
        alice = await rig.user("alice")
        key = await station(rig)
        stolen = await rig.post(f"{API}/stations/{key}/renew", token=alice)
        assert (stolen.status, stolen.json["error"]["name"]) == (422, "MQ_ERROR_INVALID_HANDLE")
        as_other = await rig.post(API + "/stations", {"name": "SUPERVISOR"}, token=alice)
        assert as_other.json["error"]["name"] == "NO_OBJECT_READ_PRIVILEGE"
        cut = await rig.token(role=Role.ADMINISTER, scopes=((r".\private$\*", 1),))
        assert (await rig.get(API + "/job-queues", token=cut)).status == 403
        read = rig.tokens["read"]
        assert (await rig.post(API + "/stations", {}, token=read)).status == 403

    with_api(tmp_path, work)
