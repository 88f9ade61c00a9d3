"""The audit log over the API: which calls are in it, what an entry holds and what it never does."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from posthouse.api.audit import ORDINARY
from posthouse.api.audit_names import ACT_NAMES
from posthouse.api.routes import ROUTES
from posthouse.model.enumerations import QueueAccessType
from posthouse.protocols.handlers.audit import object_of
from posthouse.protocols.management.protocol import ACTIONS
from posthouse.runtime.audit.log import AuditLog
from posthouse.runtime.audit.settings import AuditSettings
from posthouse.wire.frames import payloads
from tests.protocols.admin.api_rig import ORDERS, ApiRig, at, with_api
from tests.protocols.admin.console_visitor import Visitor
from tests.protocols.admin.session_peer import Peer

AUDIT = "/api/v1/audit"


def trail(moment: datetime | None = None, **settings: Any) -> Any:
    def make(folder: Path) -> AuditLog:
        loop = asyncio.get_running_loop()
        log = AuditLog(
            folder / "audit" / "audit.log", AuditSettings(**settings), loop.call_soon_threadsafe
        )
        if moment is not None:
            log._now = lambda: moment
        return log

    return make


def text(folder: Path) -> str:
    return "".join(path.read_text() for path in (folder / "audit").iterdir())


def lines(folder: Path) -> list[dict[str, Any]]:
    entries = [json.loads(line) for line in text(folder).splitlines()]
    return sorted(entries, key=lambda entry: int(entry["seq"]))


def test_an_act_is_in_the_file_when_its_answer_comes(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.post("/api/v1/queues", {"path": ORDERS, "label": "Orders"})
        (entry,) = lines(tmp_path)
        assert entry["act"] == "create_queue"
        assert (entry["user"], entry["role"], entry["outcome"]) == (
            "administrator",
            "administer",
            "done",
        )
        assert entry["object"]["path"] == ORDERS
        assert entry["address"] == "127.0.0.1"
        assert len(entry["token"]) == 16
        await rig.send(label="not an act")
        await rig.get(f"{at()}/messages")
        await rig.post(f"{at()}/purge?dry_run=true")
        assert len(lines(tmp_path)) == 1
        await rig.post(f"{at()}/purge")
        assert lines(tmp_path)[1]["result"] == {"messages": 1, "dry_run": False}

    with_api(tmp_path, work, audit=trail())


def test_refused_acts_are_written_too(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        reply = await rig.post(f"{at()}/purge", token=rig.tokens["look"])
        assert reply.status == 403
        missing = await rig.ask("DELETE", at(r".\private$\none"))
        assert missing.status == 404
        first, second = lines(tmp_path)
        assert (first["act"], first["role"], first["outcome"]) == ("purge_queue", "look", "refused")
        assert first["error"].startswith("MQ_ERROR_ACCESS_DENIED")
        assert second["object"]["queue"] == r".\private$\none"
        assert second["error"].startswith("MQ_ERROR_QUEUE_NOT_FOUND")

    with_api(tmp_path, work, audit=trail())


def test_no_secret_and_no_content_is_written(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.send(body_text="swordfish", label="one")
        await rig.post("/api/v1/users", {"name": "bob", "password": "swordfish"})
        await rig.post("/api/v1/users/bob/password", {"password": "swordfish2"})
        made = await rig.post("/api/v1/tokens", {"user": "bob", "role": "operate"})
        await rig.post(f"{at()}/delete", {"where": "priority < 8"})
        await rig.post("/api/v1/users", {"name": "\x00", "password": "swordfish"})
        await rig.post("/api/v1/users", {"name": 5, "password": "swordfish"})
        assert "swordfish" not in text(tmp_path)
        assert made.json["token"].rpartition("_")[2] not in text(tmp_path)
        assert [line["act"] for line in lines(tmp_path)][:4] == [
            "add_user",
            "set_password",
            "create_token",
            "delete_messages",
        ]
        assert lines(tmp_path)[2]["result"]["id"] == made.json["info"]["id"]
        assert lines(tmp_path)[3]["result"]["done"] == 1

    with_api(tmp_path, work, audit=trail())


def test_no_field_of_a_secret_is_shown() -> None:
    """Every body of every route, each field full: what names a secret is left out."""
    for route in ROUTES:
        for name in object_of(_full(route.params), _full(route.body)):
            assert not any(
                word in name for word in ("password", "secret", "key", "body", "extension", "pem")
            ), (route.name, name)


def _full(kind: type[msgspec.Struct]) -> msgspec.Struct:
    return msgspec.defstruct("Full", [(name, Any, "x") for name in kind.__struct_fields__])()


# Calls that change something and are no acts of operators. A name that is added here lets its calls
# go without an entry: it must be the work of applications alone, and undo nothing of others.
APPLICATIONS = {
    *("send_message", "receive_messages", "receive_message"),
    *("lease_messages", "end_lease", "renew_lease"),
    *("plan_reads", "split_range", "lease_group", "claim_messages", "acknowledge_messages"),
    *("put_stage", "publish_batch", "take_messages"),
    *("open_station", "renew_station", "login_station", "logout_station", "end_station"),
    *("restore_rights", "verify_object_password", "contains_member", "attach_server"),
    *("detach_server", "set_server_status", "submit_job", "write_job_file", "close_job_file"),
    *("start_job", "service_job", "report_job_progress", "finish_job", "abort_job"),
    *("take_client_rights", "make_client_token"),
}


def test_every_call_that_changes_something_is_an_act_unless_it_is_of_applications(
    tmp_path: Path,
) -> None:
    """Each route is called by someone who may not: an act leaves an entry, however it ends."""
    changing = [route for route in ROUTES if route.method != "GET"]
    assert {route.name for route in changing} >= ORDINARY

    async def work(rig: ApiRig) -> None:
        for route in changing:
            path = re.sub(r"\{\w+\}", "1", route.path)
            await rig.ask(route.method, path, token=rig.tokens["metrics"])
        seen = {entry["act"] for entry in lines(tmp_path)}
        assert seen == {route.name for route in changing} - APPLICATIONS
        assert all(entry["outcome"] == "refused" for entry in lines(tmp_path))

    with_api(tmp_path, work, audit=trail())


def test_a_flood_of_refusals_pushes_out_no_act(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.post("/api/v1/queues", {"path": ORDERS})
        before = (await rig.get(AUDIT)).json["entries"]
        for _ in range(60):
            reply = await rig.post(f"{at()}/purge", token=rig.tokens["look"])
            assert reply.status == 403
        entries = (await rig.get(AUDIT, limit=1000)).json["entries"]
        assert entries[-len(before) :] == before
        refused = entries[: -len(before)]
        assert [one["result"] for one in refused] == [{"more": 40}] + [{}] * 20
        assert {one["outcome"] for one in refused} == {"refused"}

    with_api(tmp_path, work, audit=trail(datetime(2026, 1, 1, tzinfo=UTC)))


def test_pages_go_both_ways_and_filters_apply(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        for number in range(7):
            await rig.post("/api/v1/queues", {"path": rf".\private$\q{number}"})
        bob = await rig.user("bob", administrator=True)
        await rig.post("/api/v1/users", {"name": "carol"}, token=bob)
        newest = (await rig.get(AUDIT, limit=3)).json
        assert [entry["seq"] for entry in newest["entries"]] == [8, 7, 6]
        older = (await rig.get(AUDIT, limit=100, before=newest["next"])).json
        assert [entry["seq"] for entry in older["entries"]] == [5, 4, 3, 2, 1]
        assert older["next"] is None
        ahead = (await rig.get(AUDIT, after=2, limit=2)).json
        assert [entry["seq"] for entry in ahead["entries"]] == [3, 4]
        assert (await rig.get(AUDIT, after=8)).json["entries"] == []
        of_bob = (await rig.get(AUDIT, user="BOB")).json["entries"]
        assert [entry["act"] for entry in of_bob] == ["add_user"]
        assert len((await rig.get(AUDIT, act="create")).json["entries"]) == 7
        assert (await rig.get(AUDIT, since="2099-01-01")).json["entries"] == []
        assert len((await rig.get(AUDIT, since="2020-01-01")).json["entries"]) == 8
        assert (await rig.get(AUDIT, before=1, after=1)).status == 422
        for role in ("look", "read", "operate"):
            assert (await rig.get(AUDIT, token=rig.tokens[role])).status == 403

    with_api(tmp_path, work, audit=trail())


def test_a_sign_in_to_the_console_is_written(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        token = rig.tokens["look"]
        headers = {"Origin": rig.url}
        reply = await rig.post("/console/session", {"token": token}, token=None, headers=headers)
        assert reply.status < 300, reply
        (entry,) = lines(tmp_path)
        assert (entry["act"], entry["role"], entry["outcome"]) == ("sign_in", "look", "done")
        assert token not in text(tmp_path)

    with_api(tmp_path, work, audit=trail())


def test_a_purge_over_a_session_is_an_act_too(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.send(label="one")
        peer = await Peer.connect(rig, rig.tokens["operate"])
        await peer.ask(payloads.Hello())
        handles = []
        for number, access in enumerate((QueueAccessType.RECEIVE, QueueAccessType.PEEK), 2):
            opened = await peer.ask(payloads.Open(ORDERS, access), number)
            assert isinstance(opened, payloads.Opened)
            handles.append(opened.queue)
        assert await peer.ask(payloads.Purge(handles[0]), 4) == payloads.Counted(1)
        assert isinstance(await peer.ask(payloads.Purge(handles[1]), 5), payloads.Refusal)
        assert isinstance(await peer.ask(payloads.Purge(99), 6), payloads.Refusal)
        done, refused = [entry for entry in lines(tmp_path) if entry["act"] == "purge_queue"]
        assert (done["outcome"], done["result"]["messages"]) == ("done", 1)
        assert (done["role"], done["address"]) == ("operate", "127.0.0.1")
        assert len(done["token"]) == 16
        assert done["object"]["queue"].endswith("orders")
        assert refused["outcome"] == "refused"

    with_api(tmp_path, work, audit=trail())


def test_a_purge_over_a_session_waits_for_a_log_that_is_required(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.send(label="one")
        peer = await Peer.connect(rig, rig.tokens["operate"])
        await peer.ask(payloads.Hello())
        opened = await peer.ask(payloads.Open(ORDERS, QueueAccessType.RECEIVE), 2)
        assert isinstance(opened, payloads.Opened)
        log = rig.admin.services.audit
        assert isinstance(log, AuditLog)
        log._attempts.close_file()
        (tmp_path / "audit").rename(tmp_path / "elsewhere")
        refused = await peer.ask(payloads.Purge(opened.queue), 3)
        assert isinstance(refused, payloads.Refusal)
        assert "cannot be written" in refused.cause
        assert await rig.labels() == ["one"]

    with_api(tmp_path, work, audit=trail(required=True))


@pytest.mark.parametrize("required", [False, True])
def test_a_log_that_cannot_be_written(required: bool, tmp_path: Path) -> None:
    """By default the act is done and written later; where it is required the act is refused."""

    async def work(rig: ApiRig) -> None:
        folder = tmp_path / "audit"
        folder.rename(tmp_path / "elsewhere")
        made = await rig.post("/api/v1/queues", {"path": ORDERS})
        found = await rig.get(at())
        if required:
            assert (made.status, found.status) == (507, 404)
            assert "[audit] required" in made.json["error"]["remedy"]
        else:
            assert (made.status, found.status) == (201, 200)
        assert (await rig.get(AUDIT)).json["unwritten"] > 0
        (tmp_path / "elsewhere").rename(folder)
        assert (await rig.post("/api/v1/queues", {"path": r".\private$\b"})).status == 201
        outcomes = [line["outcome"] for line in lines(tmp_path)]
        assert outcomes == (["begun", "refused", "begun", "done"] if required else ["done"] * 2)
        assert (await rig.get(AUDIT)).json["unwritten"] == 0

    with_api(tmp_path, work, audit=trail(required=required))


def test_dry_runs_leave_no_entry_whatever_is_done_with_them(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.post("/api/v1/queues", {"path": ORDERS})
        body = {"act": "delete", "queue": ORDERS}
        for dry_run in (True, False):
            begun = await rig.post("/api/v1/operations", {**body, "dry_run": dry_run})
            place = f"/api/v1/operations/{begun.json['id']}"
            while (await rig.get(place)).json["state"] == "running":
                pass
            gone = await rig.ask("DELETE", place)
            assert gone.json == {"dry_run": dry_run, "done": True}
        acts = [entry["act"] for entry in lines(tmp_path)]
        assert acts == ["create_queue", "begin_operation", "operation_ended", "forget_operation"]

    with_api(tmp_path, work, audit=trail())


def test_every_act_has_a_name_in_plain_english(tmp_path: Path) -> None:
    codes = {route.name for route in ROUTES if route.method != "GET"}
    codes |= {"rpc_purge", "rpc_unknown", *(f"rpc_{name.lower()}" for name in ACTIONS)}
    assert set(ACT_NAMES) == codes | {"sign_in", "operation_ended"}
    assert not [name for name in ACT_NAMES.values() if "_" in name]
    assert len(set(ACT_NAMES.values())) == len(ACT_NAMES)

    async def work(rig: ApiRig) -> None:
        await rig.post("/api/v1/queues", {"path": ORDERS})
        found = (await rig.get(f"{AUDIT}?act=create%20a%20queue")).json["entries"]
        assert [entry["act"] for entry in found] == ["create_queue"]

    with_api(tmp_path, work, audit=trail())


def test_what_a_person_does_in_the_console_is_an_act(tmp_path: Path) -> None:
    """Programs send all day long; a person who sends in the console is an operator."""

    async def work(rig: ApiRig) -> None:
        await rig.create()
        visitor = Visitor(rig)
        await visitor.sign_in()
        await rig.send(label="by a program")
        sent = await visitor.ask("POST", at() + "/messages", {"label": "by hand", "body": "c2Vj"})
        refused = await visitor.ask("POST", at() + "/messages", {"priority": 9})
        assert (sent.status, refused.status) == (201, 400)
        assert (await visitor.ask("GET", at() + "/messages")).status == 200
        first, second = [one for one in lines(tmp_path) if one["act"] == "send_message"]
        assert (first["outcome"], first["object"]["label"]) == ("done", "by hand")
        assert first["result"] == {"id": sent.json["id"]}
        assert second["outcome"] == "refused"
        assert "c2Vj" not in text(tmp_path)

    with_api(tmp_path, work, audit=trail())
