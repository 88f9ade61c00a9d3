"""Conversations of the HTTP API (docs/api.md): a server on a loopback socket, bytes as they go."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from posthouse.model.guids import format_guid
from tests.protocols.admin.api_rig import ORDERS, ApiRig, at, with_api
from tests.transcripts.recorder import Recorder

START_UTC: Final = 1_700_000_000
MESSAGE_FIELDS: Final = ("id", "label", "priority", "delivery", "body_text", "body")
FIELDS: Final = (
    *("id", "path", "format_name", "label", "name", "directory", "number", "state", "description"),
    *("flags", "file_size", "numbers", "total", "messages", "reason", "member"),
)


class Talk:
    """A client that sends requests, and every request with its response."""

    def __init__(self, rig: ApiRig, title: str) -> None:
        self.rig = rig
        self.script = Recorder(lambda: 0, title)
        self.script.name("ALPHA", format_guid(rig.desk.manager.machine.identifier))

    async def ask(self, method: str, path: str, body: Any = None, *, token: str | None = "") -> Any:
        """One request on a connection of its own; the JSON of its response."""
        data = b"" if body is None else msgspec.json.encode(body)
        head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: close"]
        if token is not None:
            head.append(f"Authorization: Bearer {token or self.rig.tokens['administer']}")
        if body is not None:
            head += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
        told: dict[str, Any] = {"body": data.decode()} if data else {}
        self.script.line("CLIENT -> ALPHA", f"{method} {path}", **told)
        answer = await self.rig.raw("\r\n".join([*head, "", ""]).encode() + data)
        front, _, text = answer.partition(b"\r\n\r\n")
        status = front.partition(b"\r\n")[0].decode().partition(" ")[2]
        value = msgspec.json.decode(text) if text else {}
        self.script.line("ALPHA -> CLIENT", status, **_shown(value))
        return value


def _shown(value: dict[str, Any]) -> dict[str, Any]:
    """What an answer is about: the reason of an error, a message, or the first of its fields."""
    if "error" in value:
        return {name: value["error"][name] for name in ("name", "cause", "remedy")}
    messages = value.get("messages")
    for inner in messages if isinstance(messages, list) else ():
        return {name: inner[name] for name in MESSAGE_FIELDS if name in inner}
    return {name: value[name] for name in FIELDS if name in value}


def _conversation(title: str, work: Callable[[Talk], Awaitable[None]]) -> str:
    async def run(rig: ApiRig) -> str:
        talk = Talk(rig, title)
        await work(talk)
        return talk.script.text()

    with tempfile.TemporaryDirectory() as folder:
        return with_api(Path(folder), run, clock=lambda: (1_000, START_UTC))


def messages() -> str:
    """A queue is created, a message is sent, looked at and received."""

    async def work(talk: Talk) -> None:
        talk.script.note("201 is the answer when the queue is on disk.")
        await talk.ask("POST", "/api/v1/queues", {"path": ORDERS, "label": "orders of today"})
        talk.script.note("A message; its id is answered when it is on disk.")
        order = {"label": "order 4711", "body_text": "two hundred cups", "delivery": "recoverable"}
        await talk.ask("POST", f"{at()}/messages", order)
        talk.script.note("Received: the message is gone with this answer.")
        await talk.ask("POST", f"{at()}/receive", {})
        await talk.ask("POST", f"{at()}/receive", {})

    return _conversation("HTTP API: create a queue, send and receive", work)


def refused() -> str:
    """Errors are JSON with code, name, cause and remedy."""

    async def work(talk: Talk) -> None:
        talk.script.note("Without a token.")
        await talk.ask("GET", "/api/v1/queues", token=None)
        talk.script.note("There is no such queue.")
        await talk.ask("GET", at(r".\private$\nowhere"))
        talk.script.note("A token that may only read.")
        body = {"path": ORDERS}
        await talk.ask("POST", "/api/v1/queues", body, token=talk.rig.tokens["read"])
        talk.script.note("A field that there is not.")
        await talk.ask("POST", "/api/v1/queues", {"path": ORDERS, "colour": "red"})

    return _conversation("HTTP API: requests that are refused", work)


def jobs() -> str:
    """A job queue over JSON: the calls that NCP has, for programs."""

    async def work(talk: Talk) -> None:
        talk.script.note("A job queue, and a job in it.")
        queue = {"name": "REPORTS", "path": "SYS:SYSTEM"}
        await talk.ask("POST", "/api/v1/job-queues", queue)
        member = {"name": "SUPERVISOR", "type": "user"}
        users = "/api/v1/bindery/objects/job_queue/REPORTS/properties/Q_USERS"
        await talk.ask("POST", f"{users}/add", member)
        talk.script.note("With `file` a job is written and started at once.")
        job = {"type": 7, "description": "monthly report", "file": "RGVhciBhbGw="}
        await talk.ask("POST", "/api/v1/job-queues/REPORTS/jobs", job)
        await talk.ask("GET", "/api/v1/job-queues/REPORTS/numbers")
        await talk.ask("DELETE", "/api/v1/job-queues/REPORTS/jobs/1")

    return _conversation("HTTP API: a job queue", work)


CONVERSATIONS = {"messages": messages, "refused": refused, "jobs": jobs}
