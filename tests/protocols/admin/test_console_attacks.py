"""What strangers try at the console's door, and the answer to each: one table.

A victim is signed in as an administrator. Each attack is one request, written as bytes. In front
stands what is tried; then the status of the answer, what differs from a request of the console's
own pages, and the body. `VICTIM` in a header is the victim's cookie, which a browser adds to
requests of other pages; `None` leaves a header out, a list repeats it.

None of them may open a session, end the victim's, create the queue that most of them ask for, or
have the server send back markup.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec
import pytest

from posthouse.model.roles import Role
from posthouse.protocols.http.settings import AdminSettings
from tests.protocols.admin.api_rig import ORDERS, ApiRig, at, with_api
from tests.protocols.admin.console_visitor import SESSION, STATUS, Visitor

Headers = Mapping[str, str | list[str] | None]
CREATE: Final = msgspec.json.encode({"path": ORDERS})
QUEUES: Final = "/api/v1/queues"
LOOK, READ, OPERATE = Role.LOOK, Role.READ, Role.OPERATE
BOX: Final = at(".\\private$\\box")
KEY, SITE, TYPE = "X-Posthouse-Page-Key", "Sec-Fetch-Site", "Content-Type"
A_KEY: Final = "A" * 43


class Attack(NamedTuple):
    """One request; `role` is that of the victim's token."""

    what: str
    answer: int
    headers: Headers = MappingProxyType({})
    body: bytes = CREATE
    path: str = QUEUES
    method: str = "POST"
    role: Role = Role.ADMINISTER


def sign_in(what: str, answer: int, headers: Headers | None = None, body: bytes = b"") -> Attack:
    """A sign-in, of a page that is not ours or in another form."""
    none: Headers = {"Cookie": None, KEY: None}
    return Attack(what, answer, {**none, **(headers or {})}, body, SESSION)


def look(what: str, answer: int, path: str, headers: Headers | None = None, **more: Any) -> Attack:
    """A request that only looks."""
    return Attack(what, answer, headers or {}, b"", path, "GET", **more)


TOKEN: Final = b'{"token": "THE TOKEN"}'  # the right one
FORGERY = [
    Attack("a form of another page: the cookie alone", 401, {KEY: None}),
    Attack("a page key that was guessed", 401, {KEY: A_KEY}),
    Attack("an empty page key", 401, {KEY: ""}),
    Attack("two page keys, one of them right", 401, {KEY: ["PAGE KEY", A_KEY]}),
    Attack("the page key without the cookie", 401, {"Cookie": None}),
    Attack("a page on another port of this host", 403, {SITE: "same-site"}),
    Attack("a page of another site", 403, {SITE: "cross-site"}),
    Attack("an address typed by the user", 403, {SITE: "none"}),
    Attack("another site, in its Origin", 403, {"Origin": "http://evil.example"}),
    Attack("a sandboxed frame", 403, {"Origin": "null"}),
    Attack("another server on this machine", 403, {"Origin": "http://127.0.0.1:1"}),
    Attack("no Origin on a change", 403, {"Origin": None}),
    Attack("two Origins, one of them right", 403, {"Origin": ["ORIGIN", "http://evil.example"]}),
    Attack("our name inside another one", 403, {"Origin": "ORIGIN.evil.example"}),
    Attack("a name bound to our address", 403, {"Host": "evil.example"}),
    Attack("the same with our port", 403, {"Host": "evil.example:8816"}),
    Attack("two Hosts", 400, {"Host": ["HOST", "evil.example"]}),
    Attack("no Host", 400, {"Host": None}),
    Attack("JSON in a form of plain text", 415, {TYPE: "text/plain"}),
    Attack("JSON in a form", 415, {TYPE: "application/x-www-form-urlencoded"}),
    Attack("a file of a form", 415, {TYPE: "multipart/form-data; boundary=x"}),
    Attack("a change by GET with another method's name", 200, {"X-HTTP-Method-Override": "DELETE"},
           b"", STATUS, "GET"),
    Attack("a sign-out by another page", 403, {SITE: "cross-site"}, b"", SESSION, "DELETE"),
    Attack("a sign-out without the page key", 401, {KEY: None}, b"", SESSION, "DELETE"),
    look("a script of another page that reads", 401, STATUS, {KEY: None}),
    look("an answer as a script, by callback", 400, STATUS + "?callback=alert"),
]  # fmt: skip
COOKIES = [
    Attack("a second cookie of the name in front", 401, {"Cookie": f"NAME={A_KEY}; VICTIM"}),
    Attack("a second one after it", 401, {"Cookie": f"VICTIM; NAME={A_KEY}"}),
    Attack("one with the prefix of TLS beside it", 401, {"Cookie": f"__Host-NAME={A_KEY}; VICTIM"}),
    Attack("an empty cookie", 401, {"Cookie": "NAME="}),
    Attack("a name without a value", 401, {"Cookie": "NAME"}),
    Attack("a cookie in a cookie", 401, {"Cookie": "NAME=VICTIM"}),
    Attack("a letter more", 401, {"Cookie": "VICTIMA"}),
    Attack("another name", 401, {"Cookie": "other=VICTIM"}),
    Attack("a cookie of 9,000 characters", 400, {"Cookie": f"VICTIM; x={'y' * 9000}"}),
    look("the cookie for metrics", 401, "/metrics"),
    look("the cookie for the description of the API", 401, "/api/v1/openapi.json"),
    look("a wrong token beside a good session", 401, STATUS,
         {"Authorization": f"Bearer pht_{'0' * 16}_{'0' * 43}"}),
]  # fmt: skip
SIGN_INS = [
    sign_in("a sign-in by a page of another site", 403, {"Origin": "http://evil.example"}, TOKEN),
    sign_in("a sign-in without Origin", 403, {"Origin": None}, TOKEN),
    sign_in("a sign-in by a page on another port", 403, {SITE: "same-site"}, TOKEN),
    sign_in("a sign-in by another site", 403, {SITE: "cross-site"}, TOKEN),
    sign_in("a sign-in under another name", 403, {"Host": "evil.example"}, TOKEN),
    sign_in("a sign-in by a form of plain text", 415, {TYPE: "text/plain"}, TOKEN),
    sign_in("a sign-in by a form", 415, {TYPE: "application/x-www-form-urlencoded"}, TOKEN),
    sign_in(
        "a sign-in by a form with a file", 415, {TYPE: "multipart/form-data; boundary=x"}, TOKEN
    ),
    sign_in("nothing at all", 400, {}, b""),
    sign_in("an empty object", 400, {}, b"{}"),
    sign_in("a list", 400, {}, b"[]"),
    sign_in("null", 400, {}, b"null"),
    sign_in("an empty token", 400, {}, b'{"token": ""}'),
    sign_in("a number for a token", 400, {}, b'{"token": 5}'),
    sign_in("a token and a user", 400, {}, b'{"token": "pht_x", "user": "bob"}'),
    sign_in("empty user and password", 400, {}, b'{"user": "", "password": ""}'),
    sign_in("a role of the stranger's choice", 400, {}, b'{"token": "x", "role": "administer"}'),
    sign_in("half of a surrogate pair", 400, {}, b'{"token": "\\ud800"}'),
    sign_in("bytes that are not UTF-8", 400, {}, b"\xff\xfe"),
    sign_in("JSON that breaks off", 400, {}, b'{"token": "x"'),
    sign_in("3,000 brackets", 400, {}, b"[" * 3000),
    sign_in("a token of 300 characters", 400, {}, b'{"token": "' + b"x" * 300 + b'"}'),
    sign_in("a sign-in of 5,000 bytes", 413, {}, b'{"token": "' + b"x" * 5000 + b'"}'),
]
ROLES = [
    look("the body, with the role look", 403, f"{BOX}/messages?bodies=true", role=LOOK),
    look("a search in bodies, with the role look", 403,
         f"{BOX}/messages?where=body_text%20~%20%22s%22", role=LOOK),
    Attack("a send, with the role look", 403, {}, b"{}", f"{BOX}/messages", role=LOOK),
    Attack("a purge, with the role read", 403, {}, b"", f"{BOX}/purge", role=READ),
    Attack("a queue, with the role operate", 403, role=OPERATE),
    look("the users, with the role operate", 403, "/api/v1/users", role=OPERATE),
    look("the event log, with the role operate", 403, "/api/v1/log", role=OPERATE),
    Attack("a token for oneself, with the role operate", 403, {}, b'{"role": "administer"}',
           "/api/v1/tokens", role=OPERATE),
]  # fmt: skip
FORMS = [
    look("a file beside the console", 404, "/console/../../etc/passwd"),
    look("the same, in percent signs", 404, "/console/%2e%2e/%2e%2e/etc/passwd"),
    look("a path that leads to another server", 404, "//evil.example/console/"),
    look("markup as a queue's name", 404, QUEUES + "/%3Cscript%3Ealert(1)%3C%2Fscript%3E"),
    look("a line break in a queue's name", 422, QUEUES + "/a%0D%0ASet-Cookie:%20x=1"),
    look("a NUL in a queue's name", 422, QUEUES + "/a%00b"),
    look("half of a percent sign", 404, QUEUES + "/%F"),
    Attack("a field that nobody asked for", 400, {}, b'{"path": "x", "owner": "S-1-1-0"}'),
    Attack("a body larger than the limit", 413, {}, b'{"path": "' + b"x" * (1 << 21) + b'"}'),
    Attack("two lengths", 400, {"Content-Length": ["5", "60"]}),
    Attack("a length and pieces, to smuggle a request", 400, {"Transfer-Encoding": "chunked"}),
    Attack("a header of 70,000 characters", 400, {"X-A": "y" * 70_000}),
    Attack("TRACE, to read the cookie back", 405, {}, b"", STATUS, "TRACE"),
    Attack("a method of the stranger's own", 400, {}, b"", STATUS, "EVIL"),
    Attack("a preflight of another page", 403, {"Origin": "http://evil.example"}, b"", QUEUES,
           "OPTIONS"),
]  # fmt: skip
ATTACKS: Final = [*FORGERY, *COOKIES, *SIGN_INS, *ROLES, *FORMS]


def test_there_are_more_than_fifty_and_each_is_another_one() -> None:
    assert len(ATTACKS) >= 80
    assert len({one.what for one in ATTACKS}) == len(ATTACKS)
    assert len({repr(one[2:]) for one in ATTACKS}) == len(ATTACKS)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda one: one.what.replace(" ", "-"))
def test_the_answer_to_an_attack(tmp_path: Path, attack: Attack) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create(".\\private$\\box")
        await rig.send(".\\private$\\box", body_text="a secret")
        victim = Visitor(rig)
        await victim.sign_in({"token": await rig.token(role=attack.role)})
        head, _, content = (await rig.raw(_written(attack, victim))).partition(b"\r\n\r\n")
        assert head.split()[1:2] == [str(attack.answer).encode()], (head, content)
        assert b"Set-Cookie" not in head
        assert b"Access-Control-Allow" not in head
        assert b"text/html" not in head
        if attack.answer != 200:
            assert b"a secret" not in content
            assert victim.page_key.encode() not in head + content
        assert len(rig.admin.console_sessions) == 1
        assert await victim.is_in()
        assert (await rig.get(at())).status == 404
        assert await rig.labels(".\\private$\\box") == [""]

    with_api(tmp_path, work, AdminSettings(body_size_max=1 << 20, body_timeout_s=5))


def _written(attack: Attack, victim: Visitor) -> bytes:
    """The request as bytes, with the words in capitals filled in."""
    name = victim.cookie.partition("=")[0]
    words = {
        "VICTIM": victim.cookie,
        "NAME": name,
        "ORIGIN": f"http://{victim.host}",
        "HOST": victim.host,
        "PAGE KEY": victim.page_key,
    }
    body = attack.body.replace(b"THE TOKEN", victim.rig.tokens["administer"].encode())
    headers: Headers = {
        "Host": victim.host,
        "Connection": "close",
        TYPE: "application/json",
        "Content-Length": str(len(body)),
        **victim.headers(),
        **attack.headers,
    }
    lines = [f"{attack.method} {attack.path} HTTP/1.1"]
    for header, values in headers.items():
        for value in values if isinstance(values, list) else [values]:
            if value is not None:
                for word, filled in words.items():
                    value = value.replace(word, filled)
                lines.append(f"{header}: {value}")
    return "\r\n".join([*lines, "", ""]).encode() + body
