"""Logins over NCP: keyed, in clear text, refused (qms-facts 4.3; decisions 13 and 14)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from posthouse.client.ncp.calls import NcpCalls
from posthouse.model.bindery import NWOT_USER, SUPERVISOR
from posthouse.model.roles import Role
from posthouse.protocols.ncp.settings import NcpSettings
from posthouse.security.accounts import Door
from posthouse.security.netware_hash import keyed_answer, password_hash
from posthouse.wire.ncp import bindery_calls as calls
from posthouse.wire.ncp.calls import NOTHING
from tests.protocols.job_queue.rig import ADDRESS, JOB_SERVER, PASSWORD, NcpRig
from tests.protocols.job_queue.walk import line_of, refused


def key_of(client: NcpCalls) -> bytes:
    key: bytes = client.link.request(calls.LOGIN_KEY, NOTHING).key
    return key


def answered(client: NcpCalls, key: bytes, name: str = "ALICE", kind: int = NWOT_USER) -> None:
    verifier = password_hash(client.get_object_id(name, kind), PASSWORD)
    asked = calls.KeyedObject(keyed_answer(key, verifier), kind, name)
    client.link.request(calls.KEYED_LOGIN, asked)


@pytest.mark.spec("NCP 0x17/1")
def test_every_key_is_fresh_and_eight_bytes_long(rig: NcpRig) -> None:
    client = rig.client()
    keys = {key_of(client) for _ in range(20)}
    assert len(keys) == 20
    assert {len(key) for key in keys} == {8}


@pytest.mark.spec("NCP 0x17/1", "QMS Q_SERVERS/4", "QMS Servicing/1")
@pytest.mark.parametrize(("name", "kind"), [("ALICE", NWOT_USER), ("SERVER", JOB_SERVER)])
def test_the_answer_to_the_key_logs_an_object_in(rig: NcpRig, name: str, kind: int) -> None:
    made = rig.user(name, kind)
    client = rig.client()
    answered(client, key_of(client), name, kind)
    assert line_of(client).station.object_id == made
    assert client.get_bindery_access_level().id == made


@pytest.mark.spec("NCP 0x17/1")
def test_an_answer_is_good_for_its_own_key_once(rig: NcpRig) -> None:
    rig.user("ALICE")
    client = rig.client()
    old = key_of(client)
    fresh = key_of(client)
    refused(0xFF, answered, client, old)
    refused(0xFF, answered, client, fresh)  # the key was used up by the wrong answer
    answered(client, key_of(client))


@pytest.mark.spec("NCP 0x17/1")
def test_a_key_of_another_connection_is_none(rig: NcpRig) -> None:
    rig.user("ALICE")
    first, second = rig.client(), rig.client()
    key = key_of(first)
    key_of(second)
    refused(0xFF, answered, second, key)


@pytest.mark.spec("NCP 0x17/2")
def test_the_answer_is_the_one_of_the_reference() -> None:
    verifier = password_hash(0x00010001, "SECRET")
    assert keyed_answer(b"12345678", verifier).hex() == "5835dbc77f24a30a"


@pytest.mark.spec("NCP 0x18/1")
def test_a_refused_login_says_why(rig: NcpRig) -> None:
    rig.user("ALICE")
    client = rig.client()
    refused(0xFC, client.login, "NOBODY", password="x")
    refused(0xFF, client.login, "ALICE", password="WRONG")
    root = rig.root()
    rig.run(lambda m: m.bindery.create_object(root, NWOT_USER, "LATER"))
    refused(0xDC, client.login, "LATER", password="x")
    assert not line_of(client).station.object_id


@pytest.mark.spec("NCP 0x18/1")
def test_a_disabled_account_cannot_log_in(rig: NcpRig) -> None:
    rig.user("ALICE")
    account = rig.manager.accounts.find("ALICE")
    rig.run(lambda m: m.accounts.replace(replace(account, disabled=True)))
    refused(0xDC, rig.client().login, "ALICE", password=PASSWORD)


@pytest.mark.spec("NCP 0x18/2")
def test_supervisor_cannot_log_in_until_it_has_a_password(rig: NcpRig) -> None:
    client = rig.client()
    refused(0xDC, client.login, SUPERVISOR, password="")
    rig.user(SUPERVISOR)
    client.login(SUPERVISOR, password=PASSWORD)
    assert line_of(client).station.object_id == 1


@pytest.mark.spec("NCP 0x18/2")
def test_after_five_failures_an_account_has_to_wait_at_that_address(rig: NcpRig) -> None:
    rig.user("ALICE")
    client = rig.client()
    for _ in range(5):
        refused(0xFF, client.login, "ALICE", password="WRONG")
    refused(0xC5, client.login, "ALICE", password=PASSWORD)
    refused(0xC5, rig.client(udp=True).login, "ALICE", password=PASSWORD)
    rig.logged_in("ALICE", address="198.51.100.1")
    rig.pass_time(3_600_000)
    rig.logged_in("ALICE", address=ADDRESS)


@pytest.mark.spec("NCP 0x17/3")
def test_only_accounts_with_the_ncp_door_have_a_verifier(rig: NcpRig) -> None:
    made = rig.user("ALICE")
    account = rig.manager.accounts.find("ALICE")
    assert Door.NCP in account.doors
    verifier = password_hash(made, PASSWORD)
    assert verifier not in account.ncp
    assert len(account.ncp) > len(verifier)
    rig.run(lambda m: m.accounts.add("WEB", doors=(Door.HTTP,)))
    assert not rig.manager.accounts.find("WEB").ncp
    refused(0xDC, rig.client().login, "WEB", password=PASSWORD)


@pytest.mark.spec("NCP 0x14/1")
def test_clear_text_is_refused_unless_it_is_configured(rig: NcpRig) -> None:
    rig.user("ALICE")
    client = rig.client()
    refused(0xD6, client.login, "ALICE", password=PASSWORD, clear_text=True)
    refused(0xD6, client.change_object_password, "ALICE", NWOT_USER, PASSWORD, "OTHER")
    asked = calls.ObjectPassword(NWOT_USER, "ALICE", PASSWORD.encode())
    refused(0xD6, client.link.request, calls.VERIFY_PASSWORD, asked)


@pytest.mark.spec("NCP 0x14/1", "QMS Creating Queue Servers/3")
def test_clear_text_works_where_it_is_configured() -> None:
    rig = NcpRig(NcpSettings(clear_text_logins=True))
    rig.user("ALICE")
    client = rig.client()
    refused(0xFF, client.login, "ALICE", password="WRONG", clear_text=True)
    client.login("ALICE", password=PASSWORD.lower(), clear_text=True)
    asked = calls.ObjectPassword(NWOT_USER, "ALICE", PASSWORD.encode())
    client.link.request(calls.VERIFY_PASSWORD, asked)
    client.change_object_password("ALICE", NWOT_USER, PASSWORD, "OTHER")
    rig.logged_in("ALICE", password="OTHER")


def test_keyed_logins_can_be_switched_off() -> None:
    """Then ncpfs falls back to clear text."""
    rig = NcpRig(NcpSettings(keyed_logins=False, clear_text_logins=True))
    rig.user("ALICE")
    client = rig.client()
    refused(0xFB, client.login, "ALICE", password=PASSWORD)
    client.login("ALICE", password=PASSWORD, clear_text=True)


def test_a_password_is_verified_without_a_login(rig: NcpRig) -> None:
    rig.user("ALICE")
    client = rig.client()
    client.verify_object_password("ALICE", NWOT_USER, PASSWORD)
    refused(0xFF, client.verify_object_password, "ALICE", NWOT_USER, "WRONG")
    assert not line_of(client).station.object_id


def test_passwords_have_no_lower_case(rig: NcpRig) -> None:
    rig.user("ALICE")
    rig.logged_in("alice", password=PASSWORD.lower())


@pytest.mark.parametrize("role", list(Role))
def test_a_role_below_operate_cannot_log_in(rig: NcpRig, role: Role) -> None:
    rig.user("ALICE")
    accounts = rig.manager.accounts
    limited = replace(accounts.find("alice"), role=role)
    rig.run(lambda manager: manager.accounts.replace(limited))
    client = rig.client()
    if role.includes(Role.OPERATE):
        client.login("ALICE", password=PASSWORD)
        answered(client, key_of(client))
    else:
        refused(0xDC, client.login, "ALICE", password=PASSWORD)
        refused(0xDC, answered, client, key_of(client))
        assert line_of(client).station.object_id == 0


def test_every_refused_login_is_told_for_the_audit_log(rig: NcpRig) -> None:
    """Those that are not looked at, too, and one line for each."""
    told = list[tuple[str, str, str]]()
    rig.user("ALICE")
    rig.manager.bindery.report_refusals(lambda *one: told.append(one))
    client = rig.client()
    key_of(client)
    nobody = calls.KeyedObject(bytes(8), NWOT_USER, "NOBODY")
    refused(0xFC, client.link.request, calls.KEYED_LOGIN, nobody)
    refused(0xDC, client.login, SUPERVISOR, password="x")
    for _ in range(5):
        refused(0xFF, client.login, "ALICE", password="WRONG")
    refused(0xC5, client.login, "ALICE", password=PASSWORD)
    wrong = [("ALICE", ADDRESS, "wrong password")] * 5
    assert told == [
        ("NOBODY", ADDRESS, "unknown object"),
        (SUPERVISOR, ADDRESS, "disabled or without a password"),
        *wrong,
        ("ALICE", ADDRESS, "too many wrong passwords: not looked at"),
    ]
