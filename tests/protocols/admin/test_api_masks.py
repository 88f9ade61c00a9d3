"""Masks over the API: no way that a role with masks has gives what is masked."""

from __future__ import annotations

import base64
import re
import threading
from pathlib import Path

import pytest

from posthouse.formats.masks import Masks
from posthouse.model.enumerations import QueueAccessType
from posthouse.model.errors import InvalidParameter
from posthouse.protocols.handlers.content_view import parse_masks
from posthouse.protocols.http.settings import AdminSettings
from posthouse.wire.frames import payloads
from tests.protocols.admin.api_rig import AUDIT, ORDERS, ApiRig, at, with_api
from tests.protocols.admin.session_peer import Peer

MASKS = AdminSettings(masks=(r"operate .\private$\orders* $..card", r"read * //card"))
JSON = '{"card": "4111", "sum": 5}'
BINARY = base64.b64encode(b"\x00\x01\x02card4111\xff").decode()


async def filled(rig: ApiRig) -> list[int]:
    await rig.create()
    await rig.create(AUDIT)
    await rig.send(label="json", body_text=JSON)
    await rig.send(label="binary", body=BINARY)
    await rig.send(AUDIT, label="elsewhere", body_text="<o><card>4111</card></o>")
    page = (await rig.get(f"{at()}/messages")).json["messages"]
    return [message["lookup_id"] for message in page]


def shows(text: str) -> bool:
    body = base64.b64encode(JSON.encode()).decode()[8:-8]
    card = re.search(r"(?<![0-9a-f-])4111(?![0-9a-f-])", text)  # not digits of an identifier
    return card is not None or any(shape in text for shape in ("card4111", body, BINARY[8:-4]))


def test_digits_of_identifiers_are_not_what_is_masked() -> None:
    for digits in ("e3d74111-bc12-44e5-9ac9", "bc124-4111-9ac9", "4111bc12-44e5", "1763574111"):
        assert not shows(f'{{"id": "{digits}"}}')
    for text in (JSON, r'"{\"card\": \"4111\"}"', "<card>4111</card>", "card4111"):
        assert shows(text)


def test_roles_with_masks_see_the_rest_and_others_everything(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        ids = await filled(rig)
        for role in ("read", "operate"):
            token = rig.tokens[role]
            for query in ({}, {"decode": "true"}, {"bodies": "true"}):
                reply = await rig.get(f"{at()}/messages", token=token, **query)
                assert not shows(reply.text), (role, query)
                first, second = reply.json["messages"]
                assert first["body_text"] == '{"card":"***","sum":5}'
                assert (second["body"], second["extension"]) == (None, None)
            for lookup_id in ids:
                shown = await rig.get(f"{at()}/messages/{lookup_id}", token=token, decode="true")
                assert shown.status == 200
                assert not shows(shown.text)
            found = await rig.get("/api/v1/messages", token=token, where="label != ''")
            assert shows(found.text) is (role == "operate")  # XML of the other queue is for `read`
        whole = await rig.get(f"{at()}/messages", token=rig.tokens["administer"])
        assert shows(whole.text)

    with_api(tmp_path, work, MASKS)


def test_filters_compare_what_is_seen(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await filled(rig)
        for where in ('body_text ~ "4111"', 'text ~ "4111"'):
            for role, count in (("operate", 0), ("read", 0), ("administer", 1)):
                reply = await rig.get(
                    f"{at()}/messages", token=rig.tokens[role], where=f"{where} and label = 'json'"
                )
                assert len(reply.json["messages"]) == count, (role, where)

    with_api(tmp_path, work, MASKS)


def test_ways_to_whole_messages_are_closed(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        ids = await filled(rig)
        token = rig.tokens["operate"]
        answers = [
            await rig.post(f"{at()}/receive", {"count": 1}, token=token),
            await rig.ask("DELETE", f"{at()}/messages/{ids[0]}", token=token),
            await rig.post(f"{at()}/lease", {"count": 1}, token=token),
            await rig.get(f"{at()}/failures", token=token),
            await rig.get(f"{at()}/arrow", token=token),
        ]
        assert [reply.status for reply in answers] == [403] * len(answers)
        assert len((await rig.get(f"{at()}/messages")).json["messages"]) == 2
        peer = await Peer.connect(rig, token)
        await peer.ask(payloads.Hello())
        for number, access in enumerate((QueueAccessType.PEEK, QueueAccessType.RECEIVE), 2):
            for name in (ORDERS, f"{ORDERS};sub"):
                refused = await peer.ask(payloads.Open(name, access), number)
                assert isinstance(refused, payloads.Refusal), (name, access)
        opened = await peer.ask(payloads.Open(AUDIT, QueueAccessType.RECEIVE), 9)
        assert isinstance(opened, payloads.Opened)
        called = await peer.ask(payloads.Call("GET", f"{at()}/messages", b""), 10)
        assert isinstance(called, payloads.Called)
        assert not shows(called.body.decode())
        deleted = await rig.post(f"{at()}/delete", {"lookup_ids": ids}, token=token)
        assert deleted.json["done"] == 2  # which shows nothing

    with_api(tmp_path, work, MASKS)


def test_messages_with_masks_cannot_be_sent_where_there_are_none(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        ids = await filled(rig)
        token = rig.tokens["operate"]
        before = await rig.labels(AUDIT)
        for act in ("copy", "move", "resend"):
            body = {"to": AUDIT, "lookup_ids": ids}
            refused = await rig.post(f"{at()}/{act}", body, token=token)
            assert refused.status == 403 or refused.json["done"] == 0, refused
        assert await rig.labels(AUDIT) == before
        deleted = await rig.post(f"{at()}/delete", {"lookup_ids": ids}, token=token)
        assert deleted.json["done"] == len(ids)

    with_api(tmp_path, work, MASKS)


OUTGOING = r"DIRECT=OS:beta\private$\far"
JOURNAL, FAILED = f"{ORDERS};journal", f"{AUDIT};failed"


@pytest.mark.parametrize(
    ("name", "pattern", "masked"),
    [
        (JOURNAL, r".\private$\orders", True),
        (JOURNAL, r".\private$\orders;journal", True),
        (ORDERS, r".\private$\orders;journal", False),
        (FAILED, r".\private$\audit;failed", True),
        (FAILED, r".\private$\audit;other", False),
        (AUDIT, r".\private$\audit;failed", False),
        (OUTGOING, r".\private$\nothing", True),
        (ORDERS, r".\private$\nothing", False),
    ],
)
def test_http_arrow_and_sessions_have_one_rule(
    name: str, pattern: str, masked: bool, tmp_path: Path
) -> None:
    """Also in journals, in subqueues by their own name, and in outgoing queues."""

    async def work(rig: ApiRig) -> None:
        await rig.post("/api/v1/queues", {"path": ORDERS, "journal": True})
        await rig.create(AUDIT)
        await rig.send(label="journaled", body_text=JSON)
        assert len((await rig.post(f"{at()}/receive", {"count": 1})).json["messages"]) == 1
        for queue in (ORDERS, AUDIT, OUTGOING):
            await rig.send(queue, label="json", body_text=JSON)
        move = {"to": FAILED, "where": "priority < 8"}
        assert (await rig.post(f"{at(AUDIT)}/move", move)).json["done"] == 1
        await rig.send(AUDIT, label="json", body_text=JSON)
        token = rig.tokens["operate"]
        listed = await rig.get(f"{at(name)}/messages", token=token)
        assert len(listed.json["messages"]) == 1, listed
        assert shows(listed.text) is not masked
        if masked and name != OUTGOING:  # of which there is no Arrow
            assert (await rig.get(f"{at(name)}/arrow", token=token)).status == 403
        peer = await Peer.connect(rig, token)
        await peer.ask(payloads.Hello())
        outgoing = name == OUTGOING
        kinds = QueueAccessType
        accesses = (
            (kinds.PEEK_ADMIN, kinds.RECEIVE_ADMIN) if outgoing else (kinds.PEEK, kinds.RECEIVE)
        )
        for number, access in enumerate(accesses, 2):
            answer = await peer.ask(payloads.Open(name, access), number)
            assert isinstance(answer, payloads.Refusal) is masked, answer
            if masked:
                assert "with masks only" in str(answer)

    with_api(tmp_path, work, AdminSettings(masks=(f"operate {pattern} $..card",)))


@pytest.mark.parametrize("name", [r".\system$;deadletter", r".\system$;journal"])
def test_a_purge_does_not_show_what_is_masked(name: str, tmp_path: Path) -> None:
    """Copies of any queue's messages are in queues of the system: dead letters, the journal."""

    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.send(label="json", body_text=JSON, journal=["positive", "negative"])
        token = rig.tokens["operate"]
        assert (await rig.post(f"{at()}/purge", token=token)).json["messages"] == 1
        listed = await rig.get(f"{at(name)}/messages", token=token)
        assert [one["label"] for one in listed.json["messages"]] == ["json"]
        assert not shows(listed.text)
        assert (await rig.get(f"{at(name)}/arrow", token=token)).status == 403
        assert (await rig.post(f"{at(name)}/receive", {"count": 1}, token=token)).status == 403
        peer = await Peer.connect(rig, token)
        await peer.ask(payloads.Hello())
        answer = await peer.ask(payloads.Open(name, QueueAccessType.RECEIVE), 2)
        assert isinstance(answer, payloads.Refusal)
        assert shows((await rig.get(f"{at(name)}/messages")).text)

    with_api(tmp_path, work, MASKS)


def test_large_bodies_are_masked_beside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anyone may send a body whose parsing takes seconds."""
    threads = list[threading.Thread]()
    plain = Masks.masked

    def noted(self: Masks, body: bytes, text: str | None) -> str | None:
        threads.append(threading.current_thread())
        return plain(self, body, text)

    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.send(label="large", body_text='{"card": [' + "1," * 20_000 + "1]}")
        monkeypatch.setattr(Masks, "masked", noted)
        token = rig.tokens["operate"]
        page = (await rig.get(f"{at()}/messages", token=token)).json["messages"]
        await rig.get(f"{at()}/messages/{page[0]['lookup_id']}", token=token)
        tail = await rig.get(f"{at()}/tail", token=token, after=0)
        assert [one["body_text"] for one in tail.json["messages"]] == ['{"card":"***"}']
        assert len(threads) == 3
        assert threading.main_thread() not in threads

    with_api(tmp_path, work, MASKS)


@pytest.mark.parametrize(
    "text",
    ["", "read *", "administer * $.a", "king * $.a", "read * a.b", "read  $.a", "look * $.a"],
)
def test_settings_that_are_no_masks_are_refused(text: str) -> None:
    with pytest.raises(InvalidParameter):
        parse_masks([text])
