"""What is in messages, over the API: lists, searches, receives; the code page of a queue."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from posthouse.model.errors import InsufficientResources
from posthouse.model.message_json import VT_LPSTR
from posthouse.model.roles import Role
from posthouse.protocols.handlers import decoding, scanning
from posthouse.protocols.handlers.context import Unbounded
from posthouse.security.access import Caller
from tests.protocols.admin.api_rig import AUDIT, ORDERS, ApiRig, at, with_api

GREETING = "Привет, мир"


def encoded(body: bytes) -> str:
    return base64.b64encode(body).decode()


async def listed(rig: ApiRig, queue: str = ORDERS, **query: Any) -> list[Any]:
    reply = await rig.get(f"{at(queue)}/messages", **query)
    assert reply.status == 200, reply
    return list(reply.json["messages"])


def test_a_list_is_decoded_where_that_is_asked_for(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.send(body_text="<int>42</int>")
        await rig.send(body=encoded(b"\x07\0\0\0"), body_type=3)
        await rig.send(body=encoded(b"\x07"), body_type=3)
        plain = await listed(rig)
        assert all("decoded" not in message for message in plain)
        found = await listed(rig, decode="true")
        assert [message["decoded"]["value"] for message in found[:2]] == [42, 7]
        assert [message["decoded"]["format"] for message in found] == ["xml", "activex", "activex"]
        assert found[2]["decoded"]["error"] == "1 bytes, the type has 4"
        bare = await listed(rig, decode="true", bodies="false")
        assert [message["body"] for message in bare] == [None] * 3
        assert [message["decoded"] for message in bare] == [one["decoded"] for one in found]

    with_api(tmp_path, work)


def test_searches_and_receives_are_decoded_too(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        for queue in (ORDERS, AUDIT):
            await rig.create(queue)
            await rig.send(queue, body_text="<string>seven</string>")
        reply = await rig.get("/api/v1/messages", where="text ~ seven", decode="true")
        assert [one["decoded"]["value"] for one in reply.json["messages"]] == ["seven"] * 2
        reply = await rig.post(f"{at()}/receive", {"decode": True})
        assert [one["decoded"]["value"] for one in reply.json["messages"]] == ["seven"]
        reply = await rig.post(f"{at(AUDIT)}/receive", {})
        assert "decoded" not in reply.json["messages"][0]

    with_api(tmp_path, work)


def test_pages_end_where_the_decoded_messages_are_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message with which an answer is full is in it, and the next page begins after it."""
    monkeypatch.setattr(decoding.Decoding.__init__, "__defaults__", (3_000,))
    monkeypatch.setattr(scanning, "FIRST_MESSAGES", 4)

    async def work(rig: ApiRig) -> None:
        await rig.create()
        for number in range(11):
            await rig.send(label=str(number), body_text=f"<string>{'x' * 500}</string>")
        for where in ({}, {"where": "label != 5"}):
            labels, pages, after = list[str](), 0, None
            while pages < 20:
                query = {"decode": "true", **where} | ({"after": after} if after else {})
                reply = await rig.get(f"{at()}/messages", **query)
                page = reply.json["messages"]
                assert 1 <= len(page) <= 3
                assert all(one["decoded"]["value"] == "x" * 500 for one in page)
                labels += [one["label"] for one in page]
                pages, after = pages + 1, reply.json["next"]
                if after is None:
                    break
            assert labels == [str(number) for number in range(11) if number != 5 or not where]
        found = await rig.get("/api/v1/messages", where="label != 5", decode="true")
        assert len(found.json["messages"]) <= 3
        assert found.json["next"] is not None
        reply = await rig.post(f"{at()}/receive", {"decode": True, "count": 11})
        received = reply.json["messages"]
        assert len(received) == 11
        assert 1 <= sum("decoded" in one for one in received) <= 3

    with_api(tmp_path, work)


def test_small_messages_that_decode_to_much_make_short_pages(tmp_path: Path) -> None:
    """A run of nulls: 30 bytes that are a list of 60,000 items."""
    count = 60_000
    size = count.to_bytes(4, "little")
    start = bytes.fromhex("0001000000ffffffff0100000000000000")
    body = b"".join((start, b"\x10\x01\0\0\0", size, b"\x0e", size, b"\x0b"))

    async def work(rig: ApiRig) -> None:
        await rig.create()
        for _ in range(60):
            await rig.send(body=encoded(body), body_type=768)
        reply = await rig.get(f"{at()}/messages", decode="true", bodies="false")
        page = reply.json["messages"]
        assert page[0]["decoded"]["value"] == [None] * count
        assert len(reply.text) < 2 * decoding.DECODED_BYTES
        assert 1 <= len(page) < 60
        assert reply.json["next"] is not None

    with_api(tmp_path, work)


def test_a_queue_has_a_code_page(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        body = {"path": ORDERS, "journal": True, "code_page": "windows-1251"}
        assert (await rig.post("/api/v1/queues", body)).json["code_page"] == "1251"
        await rig.send(body=encoded(GREETING.encode("cp1251")), body_type=VT_LPSTR)
        await rig.send(body_text=GREETING)
        first, second = await listed(rig, decode="true")
        assert (first["decoded"]["value"], first["code_page"]) == (GREETING, "1251")
        assert "code_page" not in second
        found = await listed(rig, where='format = "activex" and text ~ "привет"')
        assert [one["lookup_id"] for one in found] == [first["lookup_id"]]
        one = await rig.get(f"{at()}/messages/{first['lookup_id']}", decode="true")
        assert one.json["decoded"]["value"] == GREETING
        (taken,) = (await rig.post(f"{at()}/receive", {"decode": True})).json["messages"]
        assert taken["decoded"]["value"] == GREETING
        (kept,) = await listed(rig, f"{ORDERS};journal", decode="true")
        assert kept["decoded"]["value"] == GREETING

    with_api(tmp_path, work)


def test_the_code_page_changes_and_only_to_a_known_one(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        assert (await rig.get(at())).json["code_page"] == ""
        await rig.send(body=encoded("日本".encode("cp932")), body_type=VT_LPSTR)
        (before,) = await listed(rig, decode="true")
        assert before["decoded"]["value"] == "“ú–{"
        changed = await rig.ask("PATCH", at(), {"code_page": "CP932"})
        assert changed.json["code_page"] == "932"
        (after,) = await listed(rig, decode="true")
        assert after["decoded"]["value"] == "日本"
        refused = await rig.ask("PATCH", at(), {"code_page": "1249"})
        assert refused.status == 422
        assert "1249" in refused.json["error"]["cause"]
        assert "1251" in refused.json["error"]["remedy"]
        assert (await rig.ask("PATCH", at(), {"code_page": ""})).json["code_page"] == ""
        (again,) = await listed(rig, decode="true")
        assert again["decoded"] == before["decoded"]

    with_api(tmp_path, work)


def test_a_search_of_all_queues_decodes_no_more_than_one_answer_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding.Decoding.__init__, "__defaults__", (100,))

    async def work(rig: ApiRig) -> None:
        for queue in (ORDERS, AUDIT):
            await rig.create(queue)
            await rig.send(queue, label=queue, body_text=f"<string>{'x' * 500}</string>")
        query = {"where": "priority = 3", "decode": "true"}
        first = (await rig.get("/api/v1/messages", **query)).json
        second = (await rig.get("/api/v1/messages", after=first["next"], **query)).json
        labels = [[one["label"] for one in page["messages"]] for page in (first, second)]
        assert labels == [[ORDERS], [AUDIT]]

    with_api(tmp_path, work)


class Tight(Unbounded):
    """Memory for the messages, and none for what is in them."""

    def change(self, size: int) -> None:
        if size > 0:
            raise InsufficientResources("there is no memory left")


def test_messages_that_are_received_are_answered_without_room_for_what_is_in_them(
    tmp_path: Path,
) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.send(label="kept", body_text="<int>42</int>")
        answered: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()
        rig.admin.api.call(
            Caller.administrator(),
            Role.ADMINISTER,
            "POST",
            f"{at()}/receive",
            b'{"decode": true}',
            lambda status, body: answered.set_result((status, body)),
            Tight(),
        )
        status, body = await answered
        assert status == 200, body
        (message,) = json.loads(body)["messages"]
        assert message["label"] == "kept"
        assert "decoded" not in message
        assert (await rig.get(at())).json["messages"] == 0

    with_api(tmp_path, work)
