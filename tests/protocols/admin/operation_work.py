"""Operations over the API: what several tests do with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from posthouse.engine.manager import QueueManager
from posthouse.model.message import Message
from posthouse.model.properties import QueueAccessType
from posthouse.protocols.handlers.operation_runs import OperationRun
from posthouse.protocols.handlers.request_steps import Steps
from posthouse.security.access import Caller
from tests.protocols.admin.api_rig import AUDIT, ORDERS, ApiRig, at

OPERATIONS = "/api/v1/operations"


async def fill(rig: ApiRig, count: int, queue: str = ORDERS) -> None:
    def send(manager: QueueManager) -> None:
        descriptor = manager.queues.open_queue(
            queue, QueueAccessType.SEND, Caller.administrator(), association=rig
        )
        for number in range(count):
            manager.messages.enqueue_message_to_an_open_queue(
                descriptor, Message(label=f"{number}", priority=number % 8)
            )
        manager.queues.close_queue(descriptor)

    await rig.run(send)


async def begin(rig: ApiRig, act: str, **body: Any) -> int:
    reply = await rig.post(OPERATIONS, {"act": act, "queue": ORDERS, **body})
    assert reply.status == 201, reply
    return int(reply.json["id"])


async def ended(rig: ApiRig, number: int) -> dict[str, Any]:
    while True:
        shown: dict[str, Any] = (await rig.get(f"{OPERATIONS}/{number}")).json
        if shown["state"] not in ("running", "stopping"):
            return shown


async def all_labels(rig: ApiRig, queue: str) -> list[str]:
    found, after = list[str](), {}
    while True:
        page = (await rig.get(f"{at(queue)}/messages", bodies="false", limit=1000, **after)).json
        found += [message["label"] for message in page["messages"]]
        if page["next"] is None:
            return found
        after = {"after": page["next"]}


async def both(rig: ApiRig) -> None:
    await rig.create()
    await rig.create(AUDIT)


def after_step(change: Callable[[OperationRun], Steps[None]]) -> Any:
    """`_step` of a run, and something after it."""
    whole = OperationRun._step

    def step(self: OperationRun, *arguments: Any) -> Steps[None]:
        yield from whole(self, *arguments)
        yield from change(self)

    return step
