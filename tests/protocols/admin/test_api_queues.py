"""Queues over the API: create, list, show, set, delete, purge, outgoing ones, access."""

from __future__ import annotations

from pathlib import Path

import pytest

from posthouse.engine.manager import QueueManager
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.model.message import DeliveryGuarantee, Message, MessageId, TxSequenceId
from posthouse.model.properties import QueueAccessType
from posthouse.model.roles import Role
from posthouse.security.access import Caller
from posthouse.security.sids import ADMINISTRATORS
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.packet_fields import summarize
from tests.protocols.admin.api_rig import AUDIT, ORDERS, ApiRig, at, with_api

FAR = r"DIRECT=OS:BETA\private$\far"


def test_a_queue_is_created_shown_changed_and_deleted(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        body = {
            "path": ORDERS,
            "label": "Orders",
            "journal": True,
            "privacy": "none",
            "quota_kib": 100,
            "base_priority": -3,
            "type_id": "01234567-89ab-cdef-0123-456789abcdef",
        }
        made = await rig.post("/api/v1/queues", body)
        assert made.status == 201
        shown = (await rig.get(at())).json
        assert {name: shown[name] for name in body if name != "path"} == {
            name: value for name, value in body.items() if name != "path"
        }
        assert shown["path"] == r"ALPHA\private$\orders"
        assert shown["format_name"] == r"DIRECT=OS:ALPHA\private$\orders"
        assert shown["journal_quota_kib"] is None
        changes = {"label": "New", "quota_kib": None, "privacy": "optional", "multicast": ""}
        changed = await rig.ask("PATCH", at(), changes)
        assert changed.status == 200
        assert changed.json["label"] == "New"
        assert changed.json["quota_kib"] is None
        assert changed.json["privacy"] == "optional"
        assert changed.json["journal"] is True
        await rig.send(label="one")
        looked = await rig.ask("DELETE", at(), dry_run="true")
        assert looked.json == {"messages": 1, "dry_run": True}
        assert (await rig.ask("DELETE", at())).json == {"messages": 1, "dry_run": False}
        assert (await rig.get(at())).status == 404

    with_api(tmp_path, work)


@pytest.mark.parametrize(
    ("body", "status", "name"),
    [
        ({"path": ORDERS}, 409, "MQ_ERROR_QUEUE_EXISTS"),
        ({"path": "orders"}, 409, "MQ_ERROR_QUEUE_EXISTS"),
        ({"path": "or ders"}, 422, "MQ_ERROR_ILLEGAL_QUEUE_PATHNAME"),
        ({"path": r"BETA\private$\x"}, 422, "MQ_ERROR_ILLEGAL_QUEUE_PATHNAME"),
        ({"path": r".\private$\x", "label": "x" * 125}, 400, "MQ_ERROR_INVALID_PARAMETER"),
        ({"path": r".\private$\x", "quota_kib": -1}, 400, "MQ_ERROR_INVALID_PARAMETER"),
        ({"path": r".\private$\x", "privacy": "total"}, 400, "MQ_ERROR_INVALID_PARAMETER"),
        ({"path": r".\private$\x", "colour": "red"}, 400, "MQ_ERROR_INVALID_PARAMETER"),
        ({"label": "nameless"}, 400, "MQ_ERROR_INVALID_PARAMETER"),
        (
            {"path": r".\private$\x", "multicast": "234.1.1.1:8001", "transactional": True},
            422,
            "MQ_ERROR_PROPERTIES_CONFLICT",
        ),
    ],
)
def test_what_cannot_be_created(
    body: dict[str, object], status: int, name: str, tmp_path: Path
) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        before = (await rig.get("/api/v1/queues")).json
        reply = await rig.post("/api/v1/queues", body)
        assert (reply.status, reply.json["error"]["name"]) == (status, name)
        assert reply.json["error"]["cause"]
        assert reply.json["error"]["remedy"]
        assert (await rig.get("/api/v1/queues")).json == before

    with_api(tmp_path, work)


def test_a_bare_name_is_a_private_queue_here(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        made = await rig.post("/api/v1/queues", {"path": "parcels"})
        assert (made.status, made.json["path"]) == (201, r"ALPHA\private$\parcels")
        for name in ("parcels", r".\private$\parcels", r"FormatName:DIRECT=OS:.\private$\parcels"):
            assert (await rig.get(at(name))).json["path"] == made.json["path"], name
        await rig.send("parcels", label="one", response_queue="answers")
        (message,) = (await rig.get(f"{at('parcels')}/messages")).json["messages"]
        assert message["response_queue"] == r"DIRECT=OS:ALPHA\private$\answers"
        moved = {"act": "move", "queue": "parcels", "to": "parcels;later"}
        assert (await rig.post("/api/v1/operations", moved)).status == 201
        refused = await rig.get(at("par*"))
        assert (refused.status, "is a pattern" in refused.text) == (422, True)
        missing = await rig.get(at(r".\parcels"))
        assert missing.status == 404, "a public queue is never meant"
        assert (await rig.ask("DELETE", at("parcels"))).status == 200

    with_api(tmp_path, work)


def test_lists_have_pages_and_kinds(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        for number in range(5):
            await rig.create(rf".\private$\q{number}")
        found, after = [], 0
        while after is not None:
            page = (await rig.get("/api/v1/queues", limit=2, after=after)).json
            found += [queue["label"] or queue["path"] for queue in page["queues"]]
            after = page["next"]
        assert found == [rf"ALPHA\private$\q{number}" for number in range(5)]
        every = (await rig.get("/api/v1/queues", system="true")).json["queues"]
        assert {"dead_letter", "journal", "system_journal"} <= {queue["kind"] for queue in every}

    with_api(tmp_path, work)


def test_purge_empties_a_queue(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        for label in ("one", "two"):
            await rig.send(label=label)
        looked = await rig.post(at() + "/purge", dry_run="true")
        assert looked.json == {"messages": 2, "dry_run": True}
        assert await rig.labels() == ["one", "two"]
        assert (await rig.post(at() + "/purge")).json == {"messages": 2, "dry_run": False}
        assert await rig.labels() == []

    with_api(tmp_path, work)


def test_outgoing_queues_pause_resume_and_retry(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.send(FAR, label="out")
        (far,) = (await rig.get("/api/v1/queues", outgoing="true")).json["queues"]
        assert (far["kind"], far["messages"], far["format_name"]) == ("outgoing", 1, FAR)
        assert (await rig.post(at(FAR) + "/pause")).json["state"] == "on_hold"
        assert (await rig.post(at(FAR) + "/resume")).json["state"] == "disconnected"
        assert (await rig.post(at(FAR) + "/retry")).status == 200
        assert await rig.labels(FAR) == ["out"]
        assert (await rig.get(at(FAR))).json["connections"] == []
        await rig.create()
        assert (await rig.post(at() + "/pause")).status == 422
        token = await rig.token(role=Role.OPERATE, scopes=(("*", ~0),))
        assert (await rig.post(at(FAR) + "/pause", token=token)).status == 403

    with_api(tmp_path, work)


def test_rights_are_granted_denied_and_revoked(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        bob = await rig.user("bob")
        await rig.send(label="one")
        assert (await rig.get(at() + "/messages", token=bob)).status == 403
        granted = await rig.post(at() + "/access/grant", {"who": "Bob", "rights": ["peek"]})
        assert granted.json == {"done": True}
        assert (await rig.get(at() + "/messages", token=bob)).status == 200
        assert (await rig.post(at() + "/receive", {}, token=bob)).status == 403
        access = (await rig.get(at() + "/access")).json
        assert access["owner"] == "administrators"
        assert ["bob", False, ["peek"]] in [
            [entry["who"], entry["denied"], entry["rights"]] for entry in access["entries"]
        ]
        await rig.post(at() + "/access/deny", {"who": "users", "rights": ["peek"]})
        assert (await rig.get(at() + "/messages", token=bob)).status == 403
        await rig.post(at() + "/access/revoke", {"who": "users"})
        assert (await rig.get(at() + "/messages", token=bob)).status == 200
        await rig.post(at() + "/access/revoke", {"who": "bob"})
        assert (await rig.get(at() + "/messages", token=bob)).status == 403
        unknown = await rig.post(at() + "/access/grant", {"who": "nobody", "rights": ["peek"]})
        assert unknown.status == 422
        strange = await rig.post(at() + "/access/grant", {"who": "bob", "rights": ["fly"]})
        assert strange.status == 400
        assert "$.rights[0]" in strange.json["error"]["cause"]

    with_api(tmp_path, work)


def test_whoever_may_not_look_sees_nothing(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        bob = await rig.user("bob")
        assert (await rig.get("/api/v1/queues", token=bob)).json["queues"] == []
        assert (await rig.get(at(), token=bob)).status == 403
        assert (await rig.get("/api/v1/queues", token=bob, outgoing="true")).status == 403
        books = (await rig.get("/api/v1/books", token=bob)).json
        assert books == {"books": [], "balanced": True, "next": None}
        made = await rig.post("/api/v1/queues", {"path": AUDIT}, token=bob)
        assert made.status == 403
        assert (await rig.ask("DELETE", at(), token=bob)).status == 403
        assert (await rig.ask("PATCH", at(), {"label": "mine"}, token=bob)).status == 403
        assert (await rig.get(at() + "/access", token=bob)).status == 403

    with_api(tmp_path, work)


def test_who_has_a_queue_open_is_seen(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.run(
            lambda m: m.queues.open_queue(ORDERS, QueueAccessType.PEEK, Caller.administrator())
        )
        assert (await rig.get(at())).json["readers"] == 1

    with_api(tmp_path, work)


def test_sequences_are_shown_and_reset(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        source, guid = bytes(range(16)), "03020100-0504-0706-0809-0a0b0c0d0e0f"
        await rig.create(transactional=True)

        def packet(number: int, body: bytes) -> bytes:
            return serialize(
                Message(
                    body=body,
                    identifier=MessageId(source, number),
                    source_machine_identifier=source,
                    destination_queue_format_name=r"DIRECT=OS:ALPHA\private$\orders",
                    delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
                    sent_time=rig.desk.manager.machine.utc,
                    transaction_identifier=1,
                    transactional_message_sequence_identifier=TxSequenceId(5, 1),
                    transaction_sequence_number=number,
                    transaction_previous_sequence_number=number - 1,
                )
            )

        async def take(host: str, number: int, body: bytes = b"real") -> None:
            one = packet(number, body)
            peer, looks = Peer(source, host), [summarize(one)]
            await rig.desk.run(lambda m: m.transfer.receive_packets(peer, [one], looks))

        await take("192.0.2.7", 1)
        await take("192.0.2.9", 1, b"evil")
        await take("192.0.2.7", 9)
        found = (await rig.get(at() + "/sequences")).json
        assert {one["address"]: one["number"] for one in found["incoming"]} == {
            "192.0.2.7": 1,
            "192.0.2.9": 1,
        }
        (away,) = found["turned_away"]
        assert (away["source"], away["address"], away["messages"]) == (guid, "192.0.2.7", 1)
        assert away["place"] == {"sequence": "5\\1", "number": 9, "previous": 8}
        (conflict,) = found["conflicts"]
        assert (conflict["address"], conflict["other"]) == ("192.0.2.9", "192.0.2.7")
        problems = (await rig.get("/api/v1/status")).json["problems"]
        assert any("192.0.2.9 and 192.0.2.7" in line for line in problems)
        target, chosen = at() + "/reset-sequence", {"source": guid, "address": "192.0.2.7"}
        looked = await rig.post(target, dry_run="true", **chosen)
        assert looked.json == {"sequences": 1, "messages": 0, "dry_run": True}
        assert (await rig.post(target, **chosen)).json["sequences"] == 1
        await take("192.0.2.7", 9)
        assert len((await rig.get(at() + "/messages")).json["messages"]) == 3
        bob = await rig.user("bob")
        assert (await rig.get(at() + "/sequences", token=bob)).status == 403
        assert (await rig.post(target, token=bob)).status == 403

    with_api(tmp_path, work)


def test_the_sequence_of_an_outgoing_queue_is_reset(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        def run(manager: QueueManager) -> None:
            caller = Caller.user(b"", "administrator", (ADMINISTRATORS,))
            descriptor = manager.queues.open_queue(FAR, QueueAccessType.SEND, caller)
            transaction = manager.transactions.create_transaction(b"t" * 16)
            for body in (b"1", b"2"):
                message = Message(body=body, delivery_guarantee=DeliveryGuarantee.RECOVERABLE)
                manager.messages.enqueue_message_to_an_open_queue(descriptor, message, transaction)
            manager.transactions.transaction_commit(b"t" * 16)

        await rig.desk.run(run)
        before = (await rig.get(at(FAR) + "/sequences")).json["outgoing"]
        assert before["unacknowledged"] == 2
        target = at(FAR) + "/reset-sequence"
        looked = await rig.post(target, dry_run="true")
        assert looked.json == {"sequences": 1, "messages": 2, "dry_run": True}
        assert (await rig.get(at(FAR) + "/sequences")).json["outgoing"] == before
        assert (await rig.post(target)).json["messages"] == 2
        after = (await rig.get(at(FAR) + "/sequences")).json["outgoing"]
        assert after["first_unacknowledged"]["number"] == 1
        assert (
            after["first_unacknowledged"]["sequence"] != before["first_unacknowledged"]["sequence"]
        )
        assert after["unacknowledged"] == 2

    with_api(tmp_path, work)


def test_a_list_of_many_queues_is_made_in_steps(tmp_path: Path) -> None:
    """Each step describes a limited number; pages end where they are full."""

    async def work(rig: ApiRig) -> None:
        for number in range(130):
            await rig.create(rf".\private$\q{number}")
        before = rig.desk.turns
        page = (await rig.get("/api/v1/queues", limit=120)).json
        assert len(page["queues"]) == 120
        assert rig.desk.turns - before >= 3
        rest = (await rig.get("/api/v1/queues", limit=120, after=page["next"])).json
        names = [str(queue["path"]) for queue in page["queues"] + rest["queues"]]
        made = [name for name in names if name.startswith(r"ALPHA\private$\q")]
        assert made == [rf"ALPHA\private$\q{number}" for number in range(130)]
        assert rest["next"] is None
        books = (await rig.get("/api/v1/books", limit=125)).json
        assert (len(books["books"]), books["balanced"]) == (125, True)
        assert books["next"] is not None

    with_api(tmp_path, work)
