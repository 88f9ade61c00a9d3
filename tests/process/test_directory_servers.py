"""Directory servers that are wrong in any way, under a real queue manager: it says in which."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import posthouse
from posthouse.model.errors import NoDs
from posthouse.model.extras import install
from posthouse.model.guids import parse_guid
from posthouse.security.sids import EVERYONE
from tests.process.hostile_ldap import (
    BIND,
    ROOT,
    SEARCH,
    Answer,
    Request,
    civil,
    cookie,
    done,
    entry,
    hostile_ldap,
    reference,
)
from tests.support.process.ldap_desk import ALPHA, SECTION, Desk, Shelf, below

MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with ExitStack() as running:
        yield Desk(tmp_path_factory.mktemp("hostile"), running)


def hang_up(request: Request) -> bytes:
    raise ConnectionError


def found(request: Request, answer: bytes) -> bytes:
    """An answer to searches below the root; all else is civil."""
    return answer if request.operation == SEARCH and request.base else civil(request)


def about_itself(*entries: bytes) -> Answer:
    def answer(request: Request) -> bytes:
        if request.operation != SEARCH or request.base:
            return civil(request)
        return b"".join(entries) + done(request)

    return answer


def without_context(request: Request) -> bytes:
    if request.operation == SEARCH and not request.base:
        return entry(request, b"", {b"dnsHostName": [b"dc1"]}) + done(request)
    return civil(request)


def unreadable(request: Request) -> bytes:
    if request.operation == SEARCH and not request.base:
        return entry(request, b"", {b"namingContexts": [b"no name"]}) + done(request)
    return civil(request)


def refused_login(request: Request) -> bytes:
    return done(request, 49, b"who?") if request.operation == BIND else civil(request)


def flood(request: Request) -> bytes:
    """Entries without end."""
    if request.operation != SEARCH or not request.base:
        return civil(request)
    return 17 * entry(request, b"CN=x," + ROOT, {b"description": [bytes(MEBIBYTE)]})


def timeless(request: Request) -> bytes:
    odd = entry(request, b"CN=x," + ROOT, {b"modifyTimestamp": [b"noon"]})
    return found(request, odd + done(request))


WRONG: dict[str, Answer] = {
    "'noon' is not a time": timeless,
    "its answer is not LDAP": lambda request: b"\x30\x03\xff\xff\xff",
    "session terminated by server": hang_up,
    "the login as anonymous failed: invalidCredentials": refused_login,
    "does not describe itself (its root entry is empty)": about_itself(),
    "it has no naming context": without_context,
    "is not part of a distinguished name": unreadable,
    "busy": lambda request: found(request, done(request, 51)),
    "insufficientAccessRights": lambda request: found(request, done(request, 50)),
    "a listing did not end within": lambda request: found(
        request, done(request, 0, b"", cookie(b"more"))
    ),
    "an answer has more than 16 MiB": flood,
    "no whole answer within 2 seconds": lambda request: found(request, b""),
}


@pytest.mark.parametrize("words", WRONG)
def test_a_server_that_answers_wrong_is_away_and_the_reason_is_told(desk: Desk, words: str) -> None:
    reason = desk.reason(WRONG[words])
    assert words in reason
    assert "ldap://localhost" in reason
    with pytest.raises(NoDs):
        desk.qm.create_queue(r"ALPHA\never")
    desk.qm.create_queue(r".\private$\ours").delete()


def test_what_is_no_entry_is_passed_over(desk: Desk) -> None:
    """References to other servers, and entries whose names are none."""

    def answer(request: Request) -> bytes:
        if request.base.encode() != ROOT or request.is_by_octets:
            return civil(request)
        nameless = entry(request, b"no name", {b"objectClass": [b"site"]})
        itself = entry(request, ROOT, {b"objectClass": [b"domain"]})
        return reference(request) + nameless + itself + done(request)

    assert "is gone, or cannot be read by us" in desk.reason(answer)


POISON: list[tuple[bytes, bytes, dict[str, list[bytes]], str]] = [
    (b"CN=msmq", b"mSMQConfiguration", {}, "stands below its computer"),
    (below("label"), b"mSMQQueue", {"mSMQLabelEx": [b"\xff"]}, "mSMQLabelEx is not text"),
    (below("flag"), b"mSMQQueue", {"mSMQJournal": [b"maybe"]}, "neither TRUE nor FALSE"),
    (below("type"), b"mSMQQueue", {"mSMQQueueType": [b"short"]}, "a GUID has 16 bytes"),
    (below("time"), b"mSMQQueue", {"whenCreated": [b"yesterday"]}, "'yesterday' is not a time"),
    (below("month"), b"mSMQQueue", {"whenCreated": [b"20261301000000Z"]}, "is not a time"),
    (below("large"), b"mSMQQueue", {"nTSecurityDescriptor": [bytes(MEBIBYTE + 1)]}, "1048577"),
    (b"CN=Eve," + ROOT, b"user", {"mSMQDigests": [bytes(16)], "objectSid": [b"x"]}, "is not one"),
    (b"CN=Bob," + ROOT, b"user", {"mSMQDigests": [bytes(16)], "objectSid": [EVERYONE]}, "agree"),
    (b"CN=msmq,CN=KEY," + ROOT, b"mSMQConfiguration", {"mSMQEncryptKey": [b"x"]}, "the encryption"),
    (b"CN=many," + ROOT, b"group", {"member_range=0-4999": 5000 * [ALPHA]}, "5000 values"),
]
ODD_NAMES = [
    b"CN=" + b"x" * 5000,
    b"CN=x," * 70 + ROOT,
    b"CN=x\\",
    b"CN=\\ff",
    b"no name",
    b"CN=nobody,CN=LostAndFound," + ROOT,
    rb"CN=a\2Cb\, c ,CN=Computers," + ROOT,
]


def test_poisoned_entries_are_told_of_and_spoil_no_others(desk: Desk) -> None:
    shelf = Shelf(parse_guid(desk.qm.guid))
    for number, (dn, kind, more, _) in enumerate(POISON, 1):
        shelf.put(dn, kind, number, **more)
    shelf.put(below("orders"), b"mSMQQueue", 80, whenCreated=[b"20260101120000.5+0130"])
    shelf.put(below("letters"), b"mSMQQueue", 81, whenCreated=[b"2026010112-01"])
    shelf.put(b"CN=msmq,CN=BETA," + ROOT, b"mSMQConfiguration", 82, mSMQInRoutingServers=ODD_NAMES)
    desk.server.answer = shelf.answer
    status = desk.qm.call("POST", "/directory/refresh")
    assert status["online"], status["reason"]
    told = (desk.office.server.home / "logs" / "posthouse.log").read_text()
    for *_, words in POISON:
        assert words in told
    assert status["unusable"]
    created = {one.path: one.created_time for one in desk.qm.find_queues(machine="ALPHA")}
    assert created == {
        r"ALPHA\orders": "2026-01-01T10:30:00Z",
        r"ALPHA\letters": "2026-01-01T13:00:00Z",
    }


def test_a_program_of_its_own_does_not_wait_for_a_silent_server(tmp_path: Path) -> None:
    with posthouse.open(tmp_path, name="ALPHA") as qm:
        shelf, silent = Shelf(parse_guid(qm.guid)), threading.Event()

    def say_nothing(request: Request) -> bytes:
        silent.set()
        return b""

    with hostile_ldap(shelf.answer) as server:
        settings = SECTION.format(url=server.url).replace("refresh_s = 3600", "refresh_s = 1")
        settings = settings.replace("[directory]", "[directory]\npatience_s = 1")
        (tmp_path / "posthouse.toml").write_text(settings)
        with posthouse.open(tmp_path, name="ALPHA") as qm:
            assert qm.status().directory.online
            server.answer = say_nothing
            silent.wait()
            with pytest.raises(NoDs, match="has not answered for 1 seconds"):
                qm.create_queue(r"ALPHA\late")


@pytest.mark.parametrize(
    ("missing", "words", "more"),
    [
        ("ldap3", ["directory", "join"], ""),
        ("ldap3", ["serve", "--ports", "ephemeral"], ""),
        ("gssapi", ["directory", "join"], 'authentication = "gssapi"\n'),
    ],
)
def test_what_has_to_be_installed_first_is_named(
    desk: Desk, tmp_path: Path, missing: str, words: list[str], more: str
) -> None:
    (tmp_path / f"{missing}.py").write_text(f"raise ModuleNotFoundError('no {missing} here')\n")
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    settings = SECTION.format(url=desk.server.url) + more
    (home / "posthouse.toml").write_text(settings)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    ended = subprocess.run(
        [sys.executable, "-m", "posthouse.cli.main", *words, "--home", str(home)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 1, ended.stderr
    assert install({"ldap3": "ldap", "gssapi": "kerberos"}[missing]) in ended.stderr
    assert f"no {missing} here" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_long_lists_are_told_in_portions(desk: Desk) -> None:
    """As domains do with more than 1,500 members; half a list is none."""
    shelf = Shelf(parse_guid(desk.qm.guid))
    places = [below(name) for name in ("a", "b", "c")]
    for number, place in enumerate(places, 1):
        shelf.put(place, b"mSMQQueue", number)
    staff = b"CN=staff," + ROOT
    made = {"adminDescription": [b"Posthouse"], "member_range=0-1": places[:2]}
    shelf.put(staff, b"group", 10, **made)
    rest = {b"member;range=2-*": places[2:]}

    def answer(request: Request) -> bytes:
        if b"member;range=2-*" not in request.content:
            return shelf.answer(request)
        return entry(request, staff, rest) + done(request)

    desk.server.answer = answer
    assert desk.qm.call("POST", "/directory/refresh")["online"]
    (found,) = desk.qm.call("GET", "/directory")["lists"]
    assert found["members"] == [r"ALPHA\a", r"ALPHA\b", r"ALPHA\c"]
    rest.clear()
    assert "member of CN=staff,DC=hostile breaks off after value 1" in desk.reason(answer)
