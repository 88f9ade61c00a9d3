"""A small real listener: lines over TCP, one request each. What `serve` needs of any door."""

from __future__ import annotations

import asyncio
from typing import cast

from posthouse.engine.queues.open_queues import QueueAccessType
from posthouse.model.message import DeliveryGuarantee, Message
from posthouse.protocols.engine_calls import Answer
from posthouse.runtime.serve import Service
from posthouse.security.access import Caller
from posthouse.wire.packet.message import deserialize

QUEUE = r".\private$\orders"
ADMIN = Caller.administrator()


class LineSession(asyncio.Protocol):
    """`send LABEL` and `receive`; answers come in the order in which they are ready."""

    def __init__(self, door: LineDoor) -> None:
        self.door = door

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.door.sessions.add(self)

    def data_received(self, data: bytes) -> None:
        for line in data.decode().splitlines() if self.door.open else []:
            word, _, label = line.partition(" ")
            self.door.begun += 1
            self.receive() if word == "receive" else self.send(label)

    def send(self, label: str) -> None:
        message = Message(label=label, delivery_guarantee=DeliveryGuarantee.RECOVERABLE)
        self.door.service.desk.decide(
            lambda m: m.messages.enqueue_message_to_an_open_queue(
                m.queues.open_queue(QUEUE, QueueAccessType.SEND, ADMIN), message
            ),
            self.answer,
        )

    def receive(self) -> None:
        self.door.service.desk.decide(
            lambda m: m.messages.dequeue_message(
                m.queues.open_queue(QUEUE, QueueAccessType.RECEIVE, ADMIN), token=self.answer
            ),
            lambda answer: self.answer(answer) if answer.packets or answer.error else None,
        )

    def answer(self, answer: Answer) -> None:
        text = "sent"
        if answer.error is not None:
            text = answer.error.name
        elif answer.packets:
            text = deserialize(answer.packets[0]).label
        self.transport.write(text.encode() + b"\n")
        self.door.answered()

    def connection_lost(self, error: Exception | None) -> None:
        self.door.sessions.discard(self)


class LineDoor:
    """`posthouse.runtime.serve.Door`."""

    def __init__(self, service: Service, name: str = "line") -> None:
        self.service = service
        self.name = name
        self.sessions: set[LineSession] = set()
        self.open = True
        self.stopped = False
        self.begun = 0
        self.idle = asyncio.Event()

    async def start(self, host: str, port: int) -> str:
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(lambda: LineSession(self), host, port)
        host, port = self.server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    def answered(self) -> None:
        self.begun -= 1
        if not self.begun:
            self.idle.set()

    async def stop(self, deadline_s: float) -> None:
        self.open = False
        self.server.close()
        if self.begun:
            self.idle.clear()
            await asyncio.wait_for(self.idle.wait(), deadline_s)
        for session in list(self.sessions):
            session.transport.close()
        self.stopped = True
