"""Messages that came over HTTP, seen through the JSON and Arrow doors, copied and sent again."""

from __future__ import annotations

import asyncio
import base64
import time
from pathlib import Path
from typing import Any

from posthouse.client.admin_http import BulkHttp, segment
from posthouse.model.guids import format_guid
from posthouse.model.properties import QueueAccessType
from posthouse.security.access import Caller
from posthouse.wire.packet.packet import Packet
from posthouse.wire.srmp.message import FOREVER, SrmpMessage
from tests.engine.letters import FAR_GUID
from tests.engine.web import arrival_of
from tests.protocols.admin.api_rig import AUDIT, ORDERS, ApiRig, at, with_api
from tests.protocols.admin.arrow_rows import ALL

TO = "http://alpha/msmq/private$/orders"
EVERYTHING = ",".join(column.name for column in ALL)
MODES = [{}, {"trace": True}, {"destination_mqf": (TO, "http://b/msmq/q")}]


def message(ordinal: int, **elements: Any) -> SrmpMessage:
    return SrmpMessage(
        action=f"MSMQ:order {ordinal}",
        to=TO,
        id=f"uuid:{ordinal}@{format_guid(FAR_GUID)}",
        durable=ordinal % 2 == 0,
        sent_at=int(time.time()),
        has_msmq=True,
        source_guid=FAR_GUID,
        ordinal=ordinal,
        reach_by=FOREVER,
        **elements,
    )


async def posted(rig: ApiRig, count: int = 6) -> None:
    arrivals = [
        arrival_of(message(n, **MODES[n % 3]), f"body {n}".encode()) for n in range(1, count + 1)
    ]
    verdicts = await rig.run(lambda m: m.transfer.receive_srmp(arrivals))
    assert [verdict.status for verdict in verdicts] == [200] * count


def rows(rig: ApiRig) -> list[dict[str, Any]]:
    with BulkHttp(rig.url, token=rig.tokens["read"]) as http:
        path = f"/queues/{segment(ORDERS)}/arrow?columns={EVERYTHING}"
        return [row for batch in http.read_arrow(path) for row in batch.to_pylist()]


def test_every_door_shows_the_same_message(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create(ORDERS)
        await posted(rig)
        reply = await rig.get(f"{at()}/messages")
        assert reply.status == 200, reply
        found = reply.json["messages"]
        assert [base64.b64decode(each["body"]) for each in found] == [
            f"body {n}".encode() for n in range(1, 7)
        ]
        assert [each["label"] for each in found] == [f"order {n}" for n in range(1, 7)]
        assert found[0]["destination"].lower() == f"direct={TO}"
        assert found[0]["source_queue_manager"] == format_guid(FAR_GUID)
        table = await asyncio.to_thread(rows, rig)
        assert [row["body"] for row in table] == [f"body {n}".encode() for n in range(1, 7)]
        assert [row["label"] for row in table] == [each["label"] for each in found]
        assert [row["delivery"] for row in table] == ["express", "recoverable"] * 3
        assert [row["id"] for row in table] == [each["id"] for each in found]

    with_api(tmp_path, work)


def test_a_copy_and_what_is_sent_anew_did_not_come_over_http(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create(ORDERS)
        await rig.create(AUDIT)
        await posted(rig)
        reply = await rig.post(f"{at()}/copy", {"to": AUDIT, "where": "priority < 8"})
        assert reply.status == 200
        packets = await rig.run(lambda m: _packets(m, "audit"))
        assert [packet.body for packet in packets] == [f"body {n}".encode() for n in range(1, 7)]
        assert not any(packet.user_flags.over_http for packet in packets)
        before = await rig.run(lambda m: _packets(m, "orders"))
        assert all(packet.user_flags.over_http for packet in before)

    with_api(tmp_path, work)


def test_a_packet_that_a_client_sends_on_did_not_come_over_http(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create(ORDERS)
        await posted(rig)
        (first, *_) = await rig.run(lambda m: _packets(m, "orders"))

        def send(manager: Any) -> None:
            caller = Caller.administrator()
            descriptor = manager.queues.open_queue(ORDERS, QueueAccessType.SEND, caller)
            manager.messages.send_packets(descriptor, [first.data, first.data])
            manager.queues.close_queue(descriptor)

        await rig.run(send)
        packets = await rig.run(lambda m: _packets(m, "orders"))
        assert [packet.user_flags.over_http for packet in packets[-2:]] == [0, 0]
        assert [packet.body for packet in packets[-2:]] == [first.body] * 2
        for packet in packets:
            packet.check()

    with_api(tmp_path, work)


def _packets(manager: Any, name: str) -> list[Packet]:
    queue = manager.queues._local(rf".\private$\{name}")
    return [Packet(manager.messages.packet(number)) for _, number in queue.state.order.forward()]
