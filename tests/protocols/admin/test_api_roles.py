"""The roles metrics and look: nothing of the content of a message, by whatever way."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from posthouse.api.routes import ROUTES
from posthouse.model.enumerations import QueueAccessType
from posthouse.model.roles import Role
from posthouse.wire.frames import payloads
from tests.protocols.admin.api_rig import ORDERS, ApiRig, Reply, at, with_api
from tests.protocols.admin.session_peer import Peer

SECRET = "swordfish"
BODY = f'{{"card": "{SECRET}"}}'
TRACE = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01", "tracestate": f"a={SECRET}"}
EXTENSION = base64.b64encode(json.dumps(TRACE).encode()).decode()
SHAPES = (
    SECRET,
    base64.b64encode(BODY.encode()).decode()[4:-4],
    EXTENSION[4:-4],
    SECRET.encode("utf-16-le").hex(),
    SECRET.encode().hex(),
)


def shows_secret(reply: Reply) -> bool:
    return any(shape in reply.text for shape in SHAPES)


async def with_secrets(rig: ApiRig) -> int:
    """A message in a queue; returns its lookup id."""
    await rig.create()
    await rig.send(label="order", body_text=BODY, extension=EXTENSION)
    return int((await rig.get(f"{at()}/messages")).json["messages"][0]["lookup_id"])


def path_of(path: str, values: dict[str, Any]) -> str:
    for name, value in values.items():
        path = path.replace("{" + name + "}", str(value))
    return path


@pytest.mark.parametrize("role", [Role.METRICS, Role.LOOK])
def test_no_route_gives_content(role: Role, tmp_path: Path) -> None:
    """Every route, with every parameter that asks for content."""

    async def work(rig: ApiRig) -> None:
        lookup_id = await with_secrets(rig)
        values = {"queue": at().removeprefix("/api/v1/queues/"), "lookup_id": lookup_id}
        answered = 0
        for route in ROUTES:
            fields = route.params.__struct_fields__
            queries: list[dict[str, Any]] = [{}]
            queries += [{"decode": "true"}] if "decode" in fields else []
            queries += [{"bodies": "true"}] if "bodies" in fields else []
            needed = {"where": "priority < 8"} if route.name == "find_messages" else {}
            path = path_of(route.path, values)
            for query in queries:
                token = rig.tokens[role.value]
                reply = await rig.ask(route.method, path, token=token, **needed, **query)
                assert not shows_secret(reply), (route.name, query)
                answered += reply.status == 200
                if query and reply.status != 404:
                    assert reply.status == 403, (route.name, query, reply)
        assert bool(answered) is (role is Role.LOOK)

    with_api(tmp_path, work)


def test_look_sees_everything_else(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        lookup_id = await with_secrets(rig)
        token = rig.tokens["look"]
        for path in (f"{at()}/messages", "/api/v1/messages?where=label%20%3D%20'order'"):
            reply = await rig.get(path, token=token)
            (message,) = reply.json["messages"]
            assert (message["label"], message["body_size"]) == ("order", len(BODY))
            assert [message[name] for name in ("body", "body_text", "extension")] == [None] * 3
        shown = await rig.get(f"{at()}/messages/{lookup_id}", token=token)
        assert (shown.status, shown.json["body"], shown.json["label"]) == (200, None, "order")
        for path in ("/status", "/queues", "/groups", "/transactions", "/damage", "/directory"):
            assert (await rig.get("/api/v1" + path, token=token)).status == 200, path
        read = await rig.get(f"{at()}/messages/{lookup_id}", token=rig.tokens["read"])
        assert shows_secret(read)  # so the other tests look for the right thing

    with_api(tmp_path, work)


@pytest.mark.parametrize(
    "where",
    [
        f'body_text ~ "{SECRET}"',
        f'not body_text ~ "{SECRET}"',
        f'text ~ "{SECRET}"',
        "format = 'json'",
    ],
)
def test_look_cannot_find_content_out_by_asking(where: str, tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await with_secrets(rig)
        token = rig.tokens["look"]
        for path in (f"{at()}/messages", "/api/v1/messages"):
            reply = await rig.get(path, token=token, where=where)
            assert reply.status == 403, reply
            assert "look" in reply.json["error"]["cause"]

    with_api(tmp_path, work)


def test_look_opens_no_queue_over_a_session(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await with_secrets(rig)
        peer = await Peer.connect(rig, rig.tokens["look"])
        await peer.ask(payloads.Hello())
        for number, access in enumerate(QueueAccessType, 2):
            refused = await peer.ask(payloads.Open(ORDERS, access), number)
            assert isinstance(refused, payloads.Refusal), access
        called = await peer.ask(payloads.Call("GET", f"{at()}/messages", b""), 99)
        assert isinstance(called, payloads.Called)
        assert called.status == 200
        assert not any(shape.encode() in called.body for shape in SHAPES)

    with_api(tmp_path, work)


def test_metrics_gets_the_metrics_and_nothing_else(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        token = rig.tokens["metrics"]
        scraped = await rig.get("/metrics", token=token)
        assert (scraped.status, "posthouse_queue_messages" in scraped.text) == (200, True)
        assert (await rig.get("/readyz", token=token)).status == 200
        for path in ("/", "/api/v1/openapi.json", "/api/v1/status"):
            assert (await rig.get(path, token=token)).status == 403, path
        upgrade = (
            f"GET /api/v1/session HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
            f"Upgrade: posthouse/1\r\nAuthorization: Bearer {token}\r\n\r\n"
        )
        assert b" 403 " in (await rig.raw(upgrade.encode())).partition(b"\r\n")[0]

    with_api(tmp_path, work)


def test_the_role_of_a_user_limits_tokens_and_passwords(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        lookup_id = await with_secrets(rig)
        rig.desk.manager.certificates.key_file = lambda: b"s" * 32
        made = await rig.post(
            "/api/v1/users",
            {"name": "bob", "password": "s3cret", "administrator": True, "role": "look"},
        )
        assert made.json["role"] == "look"
        token = await rig.token("bob", role=Role.ADMINISTER)
        basic = base64.b64encode(b"bob:s3cret").decode()
        message = f"{at()}/messages/{lookup_id}"

        async def both() -> list[tuple[int, bool, int]]:
            answers = []
            for header in (f"Bearer {token}", f"Basic {basic}"):
                headers = {"Authorization": header}
                shown = await rig.get(message, token=None, headers=headers)
                purged = await rig.post(f"{at()}/pause", token=None, headers=headers)
                answers.append((shown.status, shows_secret(shown), purged.status))
            return answers

        assert await both() == [(200, False, 403), (200, False, 403)]
        await rig.ask("PATCH", "/api/v1/users/bob", {"role": "read"})
        assert await both() == [(200, True, 403), (200, True, 403)]
        changed = await rig.ask("PATCH", "/api/v1/users/bob", {"role": None})
        assert changed.json["role"] is None
        assert [status for *_, status in await both()] != [403, 403]
        wrong = await rig.ask("PATCH", "/api/v1/users/bob", {"role": "king"})
        assert wrong.status == 400

    with_api(tmp_path, work)
