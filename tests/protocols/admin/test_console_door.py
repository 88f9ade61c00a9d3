"""The console's door: sign-in, sessions, files. The attacks are in `test_console_attacks.py`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from posthouse.model.roles import Role
from posthouse.protocols.http import console_sessions, passwords, wrong_tokens
from posthouse.protocols.http.settings import AdminSettings
from posthouse.security.accounts import ScryptCost, ScryptVerifier, make_verifier
from tests.protocols.admin.api_rig import ORDERS, ApiRig, at, with_api
from tests.protocols.admin.console_visitor import SESSION, STATUS, Visitor
from tests.support.loop_server import until

CHEAP = ScryptCost(n=1 << 4, r=1, p=1)


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that are nobody's cost as little as those of the tests."""
    monkeypatch.setattr(passwords, "NO_PASSWORD", ScryptVerifier(CHEAP, bytes(16), bytes(32)))


def visit(
    folder: Path,
    work: Callable[[ApiRig, Visitor], Awaitable[None]],
    settings: AdminSettings | None = None,
) -> None:
    async def main(rig: ApiRig) -> None:
        visitor = Visitor(rig)
        await visitor.sign_in()
        await work(rig, visitor)

    with_api(folder, main, settings)


def test_a_token_opens_a_session_that_the_api_takes(tmp_path: Path) -> None:
    async def work(rig: ApiRig, visitor: Visitor) -> None:
        again = await visitor.sign_in()
        cookie = again.headers["Set-Cookie"]
        assert re.fullmatch(
            r"posthouse-[0-9]+=[\w-]{43}; Path=/; HttpOnly; SameSite=Strict", cookie
        )
        assert (again.json["user"], again.json["role"]) == ("administrator", "administer")
        assert again.json["name"] == "ALPHA"
        shown = await visitor.ask("GET", SESSION)
        assert shown.json["page_key"] == ""  # it is in the answer to the sign-in and nowhere else
        created = await visitor.ask("POST", "/api/v1/queues", {"path": ORDERS})
        assert created.status == 201
        assert (await visitor.ask("DELETE", SESSION)).headers["Set-Cookie"].endswith("Max-Age=0")
        assert not await visitor.is_in()

    visit(tmp_path, work)


def test_a_password_opens_a_session_of_role_operate(tmp_path: Path) -> None:
    async def work(rig: ApiRig, visitor: Visitor) -> None:
        await rig.create()
        verifier = make_verifier("s3cret", b"s" * 16, CHEAP)
        await rig.run(lambda m: m.accounts.add("Ann", http=verifier))
        wrong = await visitor.sign_in({"user": "ann", "password": "secret"})
        assert (wrong.status, wrong.json["error"]["cause"]) == (
            401,
            "the user name or the password is wrong",
        )
        right = await visitor.sign_in({"user": "ann", "password": "s3cret"})
        assert (right.json["user"], right.json["role"]) == ("Ann", "operate")
        assert right.json["administrator"] is False
        assert await visitor.is_in()
        assert (await visitor.ask("GET", "/api/v1/users")).status == 403
        assert (await visitor.ask("GET", at() + "/messages")).status == 403  # no right to peek
        await rig.post("/api/v1/users/ann/password", {"password": "another"})
        assert not await visitor.is_in()

    visit(tmp_path, work)


def test_a_password_that_another_door_changes_ends_the_session(tmp_path: Path) -> None:
    """NetWare's clients change passwords too, and end no sessions of this door."""

    async def work(rig: ApiRig, visitor: Visitor) -> None:
        verifier = make_verifier("s3cret", b"s" * 16, CHEAP)
        await rig.run(lambda m: m.accounts.add("Ann", http=verifier))
        await visitor.sign_in({"user": "ann", "password": "s3cret"})
        assert await visitor.is_in()
        other = make_verifier("s3cret", b"t" * 16, CHEAP)
        changed = msgspec.structs.replace(rig.desk.manager.accounts.find("ann"), http=other)
        await rig.run(lambda m: m.accounts.replace(changed))
        assert not await visitor.is_in()

    visit(tmp_path, work)


def test_the_role_of_metrics_has_no_pages(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        refused = await Visitor(rig).sign_in({"token": rig.tokens["metrics"]})
        assert (refused.status, "Set-Cookie" in refused.headers) == (403, False)
        assert (await Visitor(rig).sign_in({"token": rig.tokens["look"]})).json["role"] == "look"

    with_api(tmp_path, work)


# -- a session ends with the rights of who signed in


async def disable(rig: ApiRig) -> None:
    await rig.ask("PATCH", "/api/v1/users/bob", {"disabled": True}, token=rig.tokens["spare"])


async def delete(rig: ApiRig) -> None:
    await rig.ask("DELETE", "/api/v1/users/bob", token=rig.tokens["spare"])


async def promote(rig: ApiRig) -> None:
    await rig.ask("PATCH", "/api/v1/users/bob", {"administrator": True}, token=rig.tokens["spare"])


async def delete_and_make_again(rig: ApiRig) -> None:
    await delete(rig)
    await rig.post("/api/v1/users", {"name": "bob"}, token=rig.tokens["spare"])


@pytest.mark.parametrize("change", [disable, delete, promote, delete_and_make_again])
def test_a_stolen_cookie_ends_with_its_user(
    tmp_path: Path, change: Callable[[ApiRig], Awaitable[None]]
) -> None:
    async def work(rig: ApiRig, visitor: Visitor) -> None:
        rig.tokens["spare"] = await rig.token(role=Role.ADMINISTER)
        await visitor.sign_in({"token": await rig.user("bob")})
        assert await visitor.is_in()
        await change(rig)
        assert not await visitor.is_in()

    visit(tmp_path, work)


def test_a_session_ends_with_its_token(tmp_path: Path) -> None:
    async def work(rig: ApiRig, visitor: Visitor) -> None:
        made = (await rig.post("/api/v1/tokens", {"role": "read"})).json
        await visitor.sign_in({"token": made["token"]})
        assert (await visitor.ask("POST", "/api/v1/offline")).status == 403  # the role of the token
        await rig.ask("DELETE", f"/api/v1/tokens/{made['info']['id']}")
        assert not await visitor.is_in()
        assert len(rig.admin.console_sessions) == 0

    visit(tmp_path, work)


def test_a_wait_ends_with_the_rights_of_its_session(tmp_path: Path) -> None:
    async def work(rig: ApiRig, visitor: Visitor) -> None:
        await rig.create()
        made = (await rig.post("/api/v1/tokens", {"role": "operate"})).json
        await visitor.sign_in({"token": made["token"]})
        wait = {"timeout_ms": 60_000}
        waiting = asyncio.create_task(visitor.ask("POST", at() + "/receive", wait))
        await until(lambda: bool(rig.admin.pending._of_token))
        await rig.ask("DELETE", f"/api/v1/tokens/{made['info']['id']}")
        assert (await waiting).status != 200

    visit(tmp_path, work)


def test_a_session_ends_when_its_token_expires(tmp_path: Path) -> None:
    async def work(rig: ApiRig, visitor: Visitor) -> None:
        token, text = await rig.run(lambda m: rig.admin.tokens.create(expires_s=1 << 40))
        await visitor.sign_in({"token": text})
        assert await visitor.is_in()
        rig.admin.tokens._tokens[token.id] = msgspec.structs.replace(token, expires_s=1)
        assert not await visitor.is_in()

    visit(tmp_path, work)


def test_sessions_end_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(rig: ApiRig, visitor: Visitor) -> None:
        sessions, now = rig.admin.console_sessions, [0]
        monkeypatch.setattr(sessions, "_now_ms", lambda: now[0])
        await visitor.sign_in()
        for _ in range(10):  # acts keep it open, up to a limit
            now[0] += 3_599_999
            assert await visitor.is_in()
        for minute in (10 * 60 + 50, 11 * 60 + 40, 11 * 60 + 59):
            now[0] = minute * 60_000
            assert await visitor.is_in()
        now[0] = 12 * 3_600_000  # a minute after the last act, and twelve hours after the first
        assert not await visitor.is_in()
        now[0] = 0
        await visitor.sign_in()
        now[0] = 3_599_999  # what the page asks by itself does not count
        polled = await visitor.ask("GET", STATUS, X_Posthouse_Polled="1")
        assert polled.status == 200
        now[0] += 1
        assert not await visitor.is_in()

    visit(tmp_path, work)


def test_sessions_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console_sessions, "SESSIONS_PER_USER", 3)
    monkeypatch.setattr(console_sessions, "SESSIONS_MAX", 5)

    async def work(rig: ApiRig, visitor: Visitor) -> None:
        others = [Visitor(rig) for _ in range(3)]
        for other in others:
            await other.sign_in()
        assert [await one.is_in() for one in (visitor, *others)] == [False, True, True, True]
        for name in ("b", "c", "d"):
            stranger = Visitor(rig)
            await stranger.sign_in({"token": await rig.user(name)})
            assert await stranger.is_in()
        assert len(rig.admin.console_sessions) == 5
        assert [await one.is_in() for one in others] == [False, True, True]

    visit(tmp_path, work)


# -- requests that other pages have a browser send


@pytest.mark.parametrize(
    "changed",
    [
        {"X_Posthouse_Page_Key": None},  # a form, an image, a script: the cookie alone
        {"X_Posthouse_Page_Key": "A" * 43},
        {"X_Posthouse_Page_Key": ""},
        {"Cookie": None},  # the page key alone
        {"Sec_Fetch_Site": "same-site"},  # another port of the host
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "none"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},  # a sandboxed frame
        {"Origin": "http://127.0.0.1:1"},  # another server on this machine
        {"Origin": None},
        {"Host": "evil.example"},  # a name that was bound to our address later
        {"Host": "evil.example:8816"},
    ],
)
def test_requests_of_other_pages_change_nothing(
    tmp_path: Path, changed: dict[str, str | None]
) -> None:
    async def work(rig: ApiRig, visitor: Visitor) -> None:
        body = {"path": ORDERS}
        refused = await visitor.ask("POST", "/api/v1/queues", body, **changed)
        assert refused.status in (401, 403)
        out = await visitor.ask("DELETE", SESSION, **changed)
        assert out.status in (401, 403)
        assert (await visitor.ask("GET", at())).status == 404
        if changed != {"Origin": None}:  # browsers leave it out where a page only looks
            assert (await visitor.ask("GET", STATUS, **changed)).status in (401, 403)
            assert (await visitor.ask("GET", SESSION, **changed)).status in (401, 403)

    visit(tmp_path, work)


def test_nobody_fixes_a_session(tmp_path: Path) -> None:
    async def work(rig: ApiRig, visitor: Visitor) -> None:
        planted, key = visitor.cookie, visitor.page_key
        await visitor.sign_in()
        assert visitor.cookie != planted
        visitor.cookie, visitor.page_key = planted, key
        assert not await visitor.is_in()  # the one of before ended with the new sign-in
        stranger = Visitor(rig)
        stranger.cookie = f"posthouse-{stranger.host.partition(':')[2]}={'A' * 43}"
        chosen = stranger.cookie
        await stranger.sign_in()
        assert stranger.cookie != chosen

    visit(tmp_path, work)


def test_cookies_of_others_do_not_matter(tmp_path: Path) -> None:
    async def work(rig: ApiRig, visitor: Visitor) -> None:
        cookie = f"a=1; {visitor.cookie}; b=2"
        assert (await visitor.ask("GET", STATUS, Cookie=cookie)).status == 200
        assert (await visitor.ask("GET", STATUS, Cookie=visitor.cookie.upper())).status == 401

    visit(tmp_path, work)


def test_cookies_that_are_too_large_are_refused(tmp_path: Path) -> None:
    async def work(rig: ApiRig, visitor: Visitor) -> None:
        large = await visitor.ask("GET", STATUS, Cookie=f"{visitor.cookie}; x={'y' * 9000}")
        assert large.status == 400
        many = "; ".join(f"c{number}=1" for number in range(800))
        assert (await visitor.ask("GET", STATUS, Cookie=f"{many}; {visitor.cookie}")).status == 200
        assert await visitor.is_in()

    visit(tmp_path, work)


def test_the_cookie_opens_nothing_beside_the_api(tmp_path: Path) -> None:
    async def work(rig: ApiRig, visitor: Visitor) -> None:
        for path in ("/metrics", "/api/v1/openapi.json", "/"):
            assert (await visitor.ask("GET", path, Accept="*/*")).status == 401
        head = (
            f"GET /api/v1/session HTTP/1.1\r\nHost: {visitor.host}\r\nConnection: Upgrade\r\n"
            f"Upgrade: posthouse/1\r\nCookie: {visitor.cookie}\r\n"
            f"X-Posthouse-Page-Key: {visitor.page_key}\r\n\r\n"
        )
        answer = await rig.raw(head.encode(), b"\r\n")
        assert b" 401 " in answer  # client sessions take tokens and passwords

    visit(tmp_path, work)


def test_a_wrong_token_beside_a_good_session_is_a_wrong_token(tmp_path: Path) -> None:
    async def work(rig: ApiRig, visitor: Visitor) -> None:
        token = f"Bearer pht_{'0' * 16}_{'0' * 43}"
        assert (await visitor.ask("GET", STATUS, Authorization=token)).status == 401
        assert await visitor.is_in()

    visit(tmp_path, work)


# -- sign-ins that are no sign-ins


def test_a_session_has_three_methods(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        visitor = Visitor(rig)
        for method in ("PUT", "PATCH", "OPTIONS"):
            assert (await visitor.ask(method, SESSION)).status == 405

    with_api(tmp_path, work)


def test_a_sign_in_that_stops_in_the_middle_is_given_up(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        visitor = Visitor(rig)
        head = (
            f"POST {SESSION} HTTP/1.1\r\nHost: {visitor.host}\r\nOrigin: http://{visitor.host}\r\n"
            'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"token"'
        )
        assert b" 400 " in await rig.raw(head.encode(), b"\r\n")

    with_api(tmp_path, work, AdminSettings(body_timeout_s=1))


def test_guesses_are_slowed_down_and_then_turned_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrong_tokens, "FREE", 1)
    monkeypatch.setattr(wrong_tokens, "WAIT_MAX_MS", 100)
    refused = list[str]()

    async def work(rig: ApiRig) -> None:
        rig.admin.wrong_tokens._told = lambda user, address, cause: refused.append(cause)
        visitor, wrong = Visitor(rig), {"token": f"pht_{'0' * 16}_{'0' * 43}"}
        assert (await visitor.sign_in(wrong)).status == 401
        turned_away = await visitor.sign_in(wrong)
        assert turned_away.status == 429
        assert "Retry-After" in turned_away.headers
        assert refused == ["wrong token"]
        assert (await visitor.sign_in()).status == 200  # a right one is served

    with_api(tmp_path, work)


def test_wrong_passwords_lock_the_name_for_a_while(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        visitor = Visitor(rig)
        for _ in range(12):
            reply = await visitor.sign_in({"user": "nobody", "password": "x"})
            if reply.status == 429:
                break
            assert reply.status == 401
        assert reply.status == 429
        assert int(reply.headers["Retry-After"]) >= 1

    with_api(tmp_path, work)


# -- the files


def test_the_start_page_and_its_files(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        start = await rig.get("/console/", token=None)
        assert start.headers["Content-Type"] == "text/html; charset=utf-8"
        policy = start.headers["Content-Security-Policy"]
        assert policy == (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
            "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        )
        assert start.headers["X-Frame-Options"] == "DENY"
        assert start.headers["X-Content-Type-Options"] == "nosniff"
        assert start.headers["Referrer-Policy"] == "no-referrer"
        assert start.headers["Cache-Control"] == "no-cache"
        assert "ALPHA" not in start.text  # a stranger learns nothing of this queue manager
        main = re.search(r'src="(/console/[0-9a-f]{16}/main\.js)"', start.text)
        assert main is not None
        script = await rig.get(main[1], token=None)
        assert script.headers["Content-Type"] == "text/javascript; charset=utf-8"
        assert "immutable" in script.headers["Cache-Control"]
        assert script.headers["Content-Security-Policy"] == policy
        assert (await rig.ask("HEAD", main[1], token=None)).status == 200
        assert (await rig.post(main[1], {}, token=None)).status == 405
        other = await rig.get("/console/" + "0" * 16 + "/main.js", token=None)
        assert (other.status, other.json["error"]["remedy"]) == (404, "Load the console again.")

    with_api(tmp_path, work)


@pytest.mark.parametrize(
    "path",
    [
        "../__init__.py",
        "..%2f__init__.py",
        "%2e%2e/__init__.py",
        "....//__init__.py",
        "types.d.ts",
        "index.html",
        "lib/",
        "lib",
        "/etc/passwd",
        "main.js/",
        "main.js%00",
        "",
    ],
)
def test_only_the_files_of_the_console_are_served(tmp_path: Path, path: str) -> None:
    async def work(rig: ApiRig) -> None:
        start = (await rig.get("/console/", token=None)).text
        found = re.search(r"/console/([0-9a-f]{16})/", start)
        assert found is not None
        line = f"GET /console/{found[1]}/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        answer = await rig.raw(f"{line}Connection: close\r\n\r\n".encode())
        assert b" 404 " in answer.partition(b"\r\n")[0], answer

    with_api(tmp_path, work)


def test_a_browser_that_opens_the_address_is_led_to_the_console(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
        for path in ("/", "/console"):
            url = rig.url + path
            async with rig.http.get(url, headers=browser, allow_redirects=False) as reply:
                assert (reply.status, reply.headers["Location"]) == (303, "/console/")
        assert (await rig.get("/", token=None)).status == 401  # programs are not browsers
        page = await rig.get("/", headers=browser)
        assert "<h1>ALPHA</h1>" in page.text  # who shows a token gets the plain page
        rebound = {**browser, "Host": "evil.example"}
        assert (await rig.get("/", token=None, headers=rebound)).status == 403
        assert (await rig.get("/console/", token=None, headers=rebound)).status == 403

    with_api(tmp_path, work)


@pytest.mark.parametrize(
    ("settings", "is_there"),
    [
        (AdminSettings(), True),
        (AdminSettings(console="off"), False),
        (AdminSettings(listen="0.0.0.0", insecure=True), False),
        (AdminSettings(listen="0.0.0.0", insecure=True, console="on"), True),
        (AdminSettings(listen="::1"), True),
    ],
)
def test_where_the_console_is_served(
    tmp_path: Path, settings: AdminSettings, is_there: bool
) -> None:
    async def work(rig: ApiRig) -> None:
        visitor, browser = Visitor(rig), {"Accept": "text/html"}
        assert (await visitor.sign_in()).status == (200 if is_there else 401)
        visitor.cookie, visitor.page_key = visitor.cookie or "posthouse=x", visitor.page_key or "x"
        assert await visitor.is_in() is is_there
        async with rig.http.get(rig.url, headers=browser, allow_redirects=False) as reply:
            assert reply.status == (303 if is_there else 401)

    with_api(tmp_path, work, settings)


def test_over_tls_the_cookie_is_secure(tmp_path: Path) -> None:
    """A proxy that ends TLS shows in the origin of what the browser sends."""

    async def work(rig: ApiRig, visitor: Visitor) -> None:
        reply = await visitor.sign_in(Origin=f"https://{visitor.host}")
        cookie = reply.headers["Set-Cookie"]
        assert cookie.startswith("__Host-posthouse-")
        assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict; Secure")
        assert (await visitor.ask("GET", STATUS, Origin=None)).status == 200
        plain = visitor.cookie.removeprefix("__Host-")
        origin = {"Origin": f"https://{visitor.host}"}
        assert (await visitor.ask("GET", STATUS, Cookie=plain, **origin)).status == 401

    visit(tmp_path, work)
