"""A user's password opens the door `http`: over real HTTP and for client sessions."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import posthouse
from posthouse.model.errors import AccessDenied
from posthouse.protocols.http import passwords
from posthouse.security.accounts import Door, ScryptCost, ScryptVerifier, make_verifier
from tests.protocols.admin.api_rig import ApiRig, at, with_api

SECRET = "correct horse: battery stäple"
CHEAP = ScryptCost(n=1 << 4, r=1, p=1)


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"}


async def add(rig: ApiRig, name: str, password: str = SECRET, **options: Any) -> None:
    verifier: ScryptVerifier = make_verifier(password, b"s" * 16, CHEAP)
    await rig.run(lambda m: m.accounts.add(name, http=verifier, **options))


async def status(rig: ApiRig, user: str, password: str, path: str = "/api/v1/status") -> int:
    return (await rig.get(path, token=None, headers=basic(user, password))).status


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that are nobody's cost as little as those of the tests."""
    monkeypatch.setattr(passwords, "NO_PASSWORD", ScryptVerifier(CHEAP, bytes(16), bytes(32)))


def test_a_password_opens_the_api_the_page_and_nothing_beyond_the_users_rights(
    tmp_path: Path,
) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.post(f"{at()}/messages", {"body_text": "x"})
        await add(rig, "dave")
        for path in ("/api/v1/status", "/", "/api/v1/openapi.json"):
            assert await status(rig, "dave", SECRET, path) == 200
            assert await status(rig, "DAVE", SECRET, path) == 200
            assert await status(rig, "dave", SECRET[:-1], path) == 401
        denied = await rig.get(f"{at()}/messages", token=None, headers=basic("dave", SECRET))
        assert denied.status == 403
        assert "dave lacks the right peek" in denied.json["error"]["cause"]
        granted = await rig.post(f"{at()}/access/grant", {"who": "dave", "rights": ["receive"]})
        assert granted.status == 200, granted
        taken = await rig.post(f"{at()}/receive", {}, token=None, headers=basic("dave", SECRET))
        assert [one["body_text"] for one in taken.json["messages"]] == ["x"]
        made = await rig.post(
            "/api/v1/queues", {"path": r".\private$\own"}, token=None, headers=basic("dave", SECRET)
        )
        assert made.status == 403

    with_api(tmp_path, work)


def test_a_password_does_not_administer_even_for_administrators(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.user("root", administrator=True)
        await add(rig, "boss", groups=await administrators(rig))
        assert await status(rig, "boss", SECRET, "/api/v1/status") == 200
        assert await status(rig, "boss", SECRET, "/api/v1/users") == 403

    with_api(tmp_path, work)


async def administrators(rig: ApiRig) -> tuple[bytes, ...]:
    groups: tuple[bytes, ...] = await rig.run(lambda m: m.accounts.find("root").groups)
    return groups


def test_shut_doors_unknown_names_and_wrong_passwords_are_answered_alike(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await add(rig, "dave")
        await add(rig, "rita", doors=(Door.RPC,))
        await rig.run(lambda m: m.accounts.add("nopassword"))
        await add(rig, "gone")
        await rig.ask("PATCH", "/api/v1/users/gone", {"disabled": True})
        answers = [
            await rig.get("/api/v1/status", token=None, headers=basic(user, SECRET))
            for user in ("rita", "nopassword", "gone", "nobody", "", "x" * 500)
        ]
        answers.append(await rig.get("/api/v1/status", token=None, headers=basic("dave", "wrong")))
        answers.append(await rig.get("/api/v1/status", token=None, headers=basic("dave", "")))
        assert {(one.status, one.text) for one in answers} == {(401, answers[0].text)}
        assert "the user name or the password is wrong" in answers[0].text
        for raw in ("Basic !!", "Basic " + b64encode(b"no colon").decode(), "Digest x"):
            refused = await rig.get("/api/v1/status", token=None, headers={"Authorization": raw})
            assert refused.status == 401

    with_api(tmp_path, work)


def test_a_token_as_password_is_for_what_browsers_look_at(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        token = rig.tokens["administer"]
        assert await status(rig, "anything", token, "/") == 200
        assert await status(rig, "anything", token, "/api/v1/status") == 401

    with_api(tmp_path, work)


def test_guessing_has_to_wait_known_name_or_not_and_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0]
    monkeypatch.setattr(passwords, "FAILURES_PER_NETWORK", 13)

    told = list[tuple[str, str, str]]()

    async def work(rig: ApiRig) -> None:
        rig.admin.passwords._now_ms = lambda: now[0]
        rig.admin.passwords._told = lambda *one: told.append(one)
        await add(rig, "dave")
        await add(rig, "erin")
        for user in ("dave", "nobody"):
            assert [await status(rig, user, "wrong") for _ in range(5)] == [401] * 5
            late = await rig.get("/api/v1/status", token=None, headers=basic(user, SECRET))
            assert (late.status, late.headers["Retry-After"]) == (429, "1")
            assert "Wait 1 s" in late.json["error"]["remedy"]
            turned_away = "not looked at: too many logins from this address have failed"
            assert told[-2:] == [
                (user, "127.0.0.1", "wrong user name or password"),
                (user, "127.0.0.1", turned_away),
            ]
        assert await status(rig, "erin", SECRET) == 200
        assert (await rig.get("/api/v1/status")).status == 200  # tokens are not guessed
        now[0] = 1_000
        assert await status(rig, "dave", SECRET) == 200
        assert [await status(rig, f"name{n}", "wrong") for n in range(3)] == [401] * 3
        assert await status(rig, "name4", "wrong") == 429  # 13 of this address, whatever the names
        assert await status(rig, "dave", SECRET) == 200  # proved a moment ago
        now[0] = 70_000
        assert await status(rig, "dave", SECRET) == 200

    with_api(tmp_path, work)


async def until_it_ends(qm: posthouse.aio.QueueManagerClient) -> None:
    while True:
        await qm.status()


def test_a_password_opens_a_session_which_ends_with_the_password(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await add(rig, "dave")
        with pytest.raises(AccessDenied, match="the user name or the password is wrong"):
            await posthouse.aio.connect(url=rig.url, user="dave", password="wrong", reconnect=0)
        qm = await posthouse.aio.connect(url=rig.url, user="dave", password=SECRET, reconnect=0)
        try:
            assert (await qm.status()).name == "ALPHA"
            changed = await rig.ask("POST", "/api/v1/users/dave/password", {"password": "another"})
            assert changed.status == 200, changed
            with pytest.raises((ConnectionError, AccessDenied)):
                await until_it_ends(qm)
        finally:
            await qm.close()
        assert await status(rig, "dave", SECRET) == 401
        assert await status(rig, "dave", "another") == 200

    with_api(tmp_path, work)


def test_the_loop_goes_on_while_passwords_are_checked_and_few_are_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passwords, "CHECKS_PER_NETWORK", 1)

    async def work(rig: ApiRig) -> None:
        dear = make_verifier(SECRET, b"s" * 16)  # as every real one
        await rig.run(lambda m: m.accounts.add("dave", http=dear))
        first = asyncio.create_task(status(rig, "dave", SECRET))
        while not rig.admin.passwords._checking:
            await rig.run(lambda m: None)
        assert (await rig.get("/healthz", token=None)).status == 200
        assert await status(rig, "dave", SECRET) == 429
        assert not first.done()
        assert await first == 200

    with_api(tmp_path, work)


def test_guesses_count_of_clients_that_do_not_wait_for_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passwords, "FAILURES_PER_NETWORK", 2)

    async def work(rig: ApiRig) -> None:
        logins = rig.admin.passwords
        dear = make_verifier(SECRET, b"s" * 16)  # as every real one
        await rig.run(lambda m: m.accounts.add("dave", http=dear))
        host, _, port = rig.url.removeprefix("http://").partition(":")
        upgrade = "Connection: Upgrade\r\nUpgrade: posthouse/1\r\n"
        for path, more in (("status", ""), ("session", upgrade)):
            _, writer = await asyncio.open_connection(host, int(port))
            head = f"GET /api/v1/{path} HTTP/1.1\r\nHost: localhost\r\n{more}"
            login = basic("dave", f"wrong for {path}")["Authorization"]
            writer.write(f"{head}Authorization: {login}\r\n\r\n".encode())
            while not logins._checking:
                await rig.run(lambda m: None)
            writer.transport.abort()
            while rig.server.open:
                await rig.run(lambda m: None)
            while logins._checking:  # its thread still works: so does the place that it takes
                await rig.run(lambda m: None)
        assert await status(rig, "dave", SECRET) == 429

    with_api(tmp_path, work)


def test_only_who_was_let_in_keeps_the_place_of_a_connection(tmp_path: Path) -> None:
    async def proven(rig: ApiRig, path: str, headers: dict[str, str]) -> bool:
        async with aiohttp.ClientSession() as http, http.get(rig.url + path, headers=headers):
            (connection,) = (one for one in rig.server.open if one not in before)
            return not connection.admission.unproven

    before: set[Any] = set()

    async def work(rig: ApiRig) -> None:
        await add(rig, "dave")
        before.update(rig.server.open)
        assert not await proven(rig, "/healthz", basic("x", "y"))
        assert not await proven(rig, "/api/v1/status", {"Host": "localhost:x", **basic("x", "y")})
        for _ in range(6):  # 401, then 429
            assert not await proven(rig, "/api/v1/status", basic("x", "y"))
        assert await proven(rig, "/api/v1/status", basic("dave", SECRET))
        assert await proven(rig, "/readyz", basic("dave", SECRET))
        assert await proven(rig, "/api/v1/users", basic("dave", SECRET))  # let in, not allowed

    with_api(tmp_path, work)
