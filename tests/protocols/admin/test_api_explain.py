"""The life of a message: what left and how, who may see it, and what peers state."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from posthouse.api.types import DepartureJson
from posthouse.engine.ledger import departed_messages
from posthouse.engine.settings import EngineLimits, EngineSettings
from posthouse.model.errors import InvalidParameter
from posthouse.model.names import parse_name
from posthouse.model.properties import QueueAccessType as Access
from posthouse.protocols.handlers import explain
from posthouse.protocols.http.background_work import awaited
from posthouse.runtime import peer_questions
from posthouse.runtime.peer_questions import ExplainPeer, PeerQuestions, parse_peers
from posthouse.security.access import Caller
from tests.protocols.admin.api_rig import ORDERS, ApiRig, at, with_api

OTHER = r".\private$\other"


def path_of(identifier: str) -> str:
    return f"/api/v1/messages/{quote(identifier, safe='')}/explain"


async def life(rig: ApiRig, identifier: str, **options: Any) -> dict[str, Any]:
    reply = await rig.get(path_of(identifier), **options)
    assert reply.status == 200, reply
    found: dict[str, Any] = reply.json
    return found


def test_it_states_how_a_message_left(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        ids = [await rig.send(label=str(number)) for number in range(3)]
        assert (await life(rig, ids[0]))["departures"] == []
        await rig.post(f"{at()}/receive", {"count": 1})
        leased = (await rig.post(f"{at()}/lease", {"count": 1})).json
        await rig.post(f"/api/v1/leases/{leased['lease']}/end", {})
        await rig.post(f"{at()}/purge")
        ends = [(await life(rig, one))["departures"][0] for one in ids]
        assert [end["how"] for end in ends] == ["received", "received", "purged"]
        assert ends[1]["reader"] == "administrator"
        assert ends[2]["reader"] == ""
        found = await life(rig, ids[1])
        assert found["answer"].startswith("received from ALPHA\\private$\\orders at 2")
        assert found["answer"].endswith("by administrator")
        assert found["places"] == []

    with_api(tmp_path, work)


def test_only_who_may_look_into_the_queue_sees_it(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        identifier = await rig.send(label="x")
        await rig.post(f"{at()}/receive", {"count": 1})
        bob = await rig.user("bob")
        assert (await life(rig, identifier, token=bob))["departures"] == []
        await rig.post(f"{at()}/access/grant", {"who": "bob", "rights": ["peek"]})
        assert len((await life(rig, identifier, token=bob))["departures"]) == 1
        assert len((await life(rig, identifier, token=rig.tokens["look"]))["departures"]) == 1
        refused = await rig.get(path_of(identifier), token=bob, peers="true")
        assert refused.status == 403

    with_api(tmp_path, work)


def test_the_record_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departed_messages, "KEPT_MAX", 5)

    async def work(rig: ApiRig) -> None:
        await rig.create()
        ids = [await rig.send(label=str(number)) for number in range(8)]
        for _ in ids:
            await rig.post(f"{at()}/receive", {"count": 1})
        known = [bool((await life(rig, one))["departures"]) for one in ids]
        assert known == [False] * 3 + [True] * 5

    with_api(tmp_path, work)


HOSTILE = {
    "garbage": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{[}",
    "other": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
    "endless": b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 3_000_000,
    "not http": b"SSH-2.0-x\r\n",
    "silent": b"",
}


def test_peers_are_asked_and_bad_ones_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_questions, "TIMEOUT_S", 3.0)

    async def work(rig: ApiRig) -> None:
        await rig.create()
        identifier = await rig.send(label="x")
        (tmp_path / "token").write_text(rig.tokens["look"] + "\n")
        peers = [ExplainPeer("SELF", rig.url, "token"), ExplainPeer("NOFILE", rig.url, "none")]
        (tmp_path / "wrong").write_text("pht_x")
        peers.append(ExplainPeer("WRONG", rig.url, "wrong"))
        servers, followed = [], list[bool]()

        async def elsewhere(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            followed.append(True)
            writer.close()

        servers.append(await asyncio.start_server(elsewhere, "127.0.0.1", 0))
        port = servers[0].sockets[0].getsockname()[1]
        moved = f"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{port}/\r\n\r\n".encode()
        for name, answer in {**HOSTILE, "redirect": moved}.items():
            server = await asyncio.start_server(answering(answer), "127.0.0.1", 0)
            servers.append(server)
            port = server.sockets[0].getsockname()[1]
            peers.append(ExplainPeer(name, f"http://127.0.0.1:{port}", "token"))
        asked = PeerQuestions(tmp_path, tuple(peers))
        rig.admin.services.ask_peers = awaited(asked.ask)
        assert (await life(rig, identifier))["peers"] == []
        found = (await life(rig, identifier, peers="true"))["peers"]
        for server in servers:
            server.close()
        assert [peer["name"] for peer in found] == [peer.name for peer in peers]
        assert (found[0]["error"], found[0]["places"][0]["queue"]) == ("", f"ALPHA{ORDERS[1:]}")
        assert not followed
        assert all(peer["error"] and not peer["places"] for peer in found[1:]), found

    with_api(tmp_path, work)


def answering(answer: bytes) -> Any:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        if answer:
            await writer.drain()
            writer.close()
        else:
            await reader.read()

    return serve


@pytest.mark.parametrize("text", ["", "A", "A http://b", "A ftp://b t", "A http://b t x"])
def test_settings_that_name_no_peer_are_refused(text: str) -> None:
    with pytest.raises(InvalidParameter):
        parse_peers([text])
    with pytest.raises(InvalidParameter):
        parse_peers(["A http://b t"] * 17)


def test_a_machine_that_took_a_message_over_may_have_refused_it() -> None:
    """The sender is not informed of that: the answer names where to look."""
    left = DepartureJson(r"DIRECT=OS:beta\private$\ordres", 1, "2026-11-18T04:13:33Z", "delivered")
    words = explain._answer([], [left], [], is_own=True)
    assert words.startswith(r"taken over by the machine of DIRECT=OS:beta\private$\ordres at 2026")
    assert "run explain there" in words


def test_a_search_names_the_queues_that_cannot_be_opened_and_goes_on(tmp_path: Path) -> None:
    limits = EngineLimits(open_handles_max=4)

    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.create(OTHER)
        identifier = await rig.send(label="x")
        await rig.send(OTHER, label="x")
        who = Caller.administrator()
        held = [
            await rig.run(lambda m: m.queues.open_queue(parse_name(ORDERS), Access.PEEK, who))
            for _ in range(2)
        ]
        found = (await rig.get("/api/v1/messages", where="label = 'x'")).json
        assert found["messages"] == []
        assert [one["queue"] for one in found["skipped"]] == [
            f"ALPHA{name[1:]}" for name in (ORDERS, OTHER)
        ]
        assert "too many queues are open" in found["skipped"][0]["reason"]
        answer = await life(rig, identifier)
        assert len(answer["skipped"]) == 2
        await rig.run(lambda m: m.queues.close_queue(held[0]))
        found = (await rig.get("/api/v1/messages", where="label = 'x'")).json
        assert (len(found["messages"]), found["skipped"]) == (2, [])
        assert (await life(rig, identifier))["skipped"] == []

    with_api(tmp_path, work, engine=EngineSettings("ALPHA", limits=limits))
