"""Logins and passwords of bindery objects (qms-facts 4.3; decisions 13, 14)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from posthouse.engine.jobs.bindery.stations import Station
from posthouse.engine.jobs.settings import QmsSettings
from posthouse.model.bindery import NWOT_JOB_SERVER, NWOT_USER
from posthouse.security.accounts import Door
from posthouse.security.netware_hash import keyed_answer, password_hash
from tests.engine.job_rig import JobRig

SERVER = (NWOT_JOB_SERVER, "SRV1")
ANNA = (NWOT_USER, "ANNA")


@pytest.fixture
def rig() -> JobRig:
    rig = JobRig()
    rig.bindery("change_object_password", rig.super, *SERVER, "", "Secret")
    rig.bindery("change_object_password", rig.super, *ANNA, "", "Pass")
    return rig


def knock(rig: JobRig, kind: int, name: str, password: str, address: str = "10.0.0.1") -> Station:
    """A keyed login, as NetWare clients do it."""
    station = rig.run(lambda m: m.stations.begin("ncp", address))
    key = rig.bindery("login_key", station)
    found = rig.manager.bindery.objects.find(kind, name)
    verifier = password_hash(0 if found is None else found.id, password)
    rig.bindery("login_keyed", station, kind, name, keyed_answer(key, verifier))
    return station


@pytest.mark.spec("NCP 0x17/1", "QMS Servicing/1", "QMS Q_SERVERS/4", "QMS Servicing/2")
def test_a_queue_server_logs_in_with_its_own_name_type_and_password(rig: JobRig) -> None:
    station = knock(rig, *SERVER, "SECRET")
    assert rig.bindery("get_object_name", station, station.object_id).name == "SRV1"
    rig.jobs("attach_queue_server_to_queue", station, rig.q)
    with rig.completion(0xFC):
        knock(rig, NWOT_USER, "SRV1", "SECRET")


@pytest.mark.spec("NCP 0x17/1")
def test_a_key_does_not_outlive_a_logout(rig: JobRig) -> None:
    station, one = rig.station(), rig.manager.bindery.objects.get(*SERVER)
    key = rig.bindery("login_key", station)
    rig.run(lambda manager: manager.stations.logout(station))
    with rig.completion(0xFF):
        answer = keyed_answer(key, password_hash(one.id, "SECRET"))
        rig.bindery("login_keyed", station, *SERVER, answer)
    assert not station.object_id


@pytest.mark.spec("NCP 0x17/1")
def test_keys_are_fresh_and_good_once(rig: JobRig) -> None:
    station, one = rig.station(), rig.manager.bindery.objects.get(*SERVER)
    key = rig.bindery("login_key", station)
    assert len(key) == 8
    assert rig.bindery("login_key", station) != key
    answer = keyed_answer(key, password_hash(one.id, "SECRET"))
    with rig.completion(0xFF):
        rig.bindery("login_keyed", station, *SERVER, answer)
    with rig.completion(0xFF):
        rig.bindery("login_keyed", station, *SERVER, answer)
    key = rig.bindery("login_key", station)
    rig.bindery(
        "verify_keyed", station, *SERVER, keyed_answer(key, password_hash(one.id, "secret"))
    )
    with rig.completion(0xFF):
        rig.bindery("login_keyed", station, *SERVER, b"")
    assert station.object_id == 0


@pytest.mark.spec("NCP 0x18/1")
def test_refused_logins_say_why(rig: JobRig) -> None:
    with rig.completion(0xFC):
        knock(rig, NWOT_USER, "NOBODY", "x")
    with rig.completion(0xFC):
        knock(rig, NWOT_USER, "N:N", "x")
    with rig.completion(0xFF):
        knock(rig, *SERVER, "WRONG")
    with rig.completion(0xDC):
        knock(rig, NWOT_JOB_SERVER, "SRV2", "")  # it has no password
    disabled = msgspec.structs.replace(rig.manager.accounts.find("ANNA"), disabled=True)
    rig.run(lambda m: m.accounts.replace(disabled))
    with rig.completion(0xDC):
        knock(rig, *ANNA, "PASS")


@pytest.mark.spec("NCP 0x18/2")
def test_supervisor_is_disabled_until_it_has_a_password(rig: JobRig) -> None:
    for password in ("", "SUPERVISOR"):
        with rig.completion(0xDC):
            knock(rig, NWOT_USER, "SUPERVISOR", password)
    rig.bindery("change_object_password", rig.super, NWOT_USER, "SUPERVISOR", "", "Right")
    station = knock(rig, NWOT_USER, "SUPERVISOR", "RIGHT")
    assert station.object_id == 1
    assert rig.manager.bindery.is_supervisor(station)
    account = rig.manager.accounts.find("supervisor")
    assert (account.doors, account.is_administrator, account.http) == ((Door.NCP,), True, None)
    rig.run(lambda m: m.accounts.remove("supervisor"))
    with rig.completion(0xDC):
        knock(rig, NWOT_USER, "SUPERVISOR", "RIGHT")
    rig.restart()
    assert rig.manager.bindery.is_supervisor(rig.super)


@pytest.mark.spec("NCP 0x18/2")
def test_after_five_failures_the_wait_grows_for_account_and_address(rig: JobRig) -> None:
    for _ in range(5):
        with rig.completion(0xFF):
            knock(rig, *SERVER, "WRONG")
    with rig.completion(0xC5):
        knock(rig, *SERVER, "SECRET")
    knock(rig, *SERVER, "SECRET", "10.0.0.2")
    knock(rig, *ANNA, "PASS")
    rig.advance(1)
    with rig.completion(0xFF):
        knock(rig, *SERVER, "WRONG")
    rig.advance(1)
    with rig.completion(0xC5):
        knock(rig, *SERVER, "SECRET")
    rig.advance(1)
    knock(rig, *SERVER, "SECRET")
    with rig.completion(0xFF):
        knock(rig, *SERVER, "WRONG")  # the count has begun again


@pytest.mark.spec("NCP 0x17/3", "QMS Creating Queue Servers/3")
def test_only_the_sealed_hash_of_a_password_is_kept(rig: JobRig) -> None:
    objects = rig.manager.bindery.objects
    hashes = [
        password_hash(objects.get(*who).id, pw) for who, pw in ((SERVER, "SECRET"), (ANNA, "PASS"))
    ]
    everything = rig.manager.ledger.state.dump()
    for secret in (b"SECRET", b"Secret", b"PASS", b"Pass", *hashes):
        assert secret not in everything
    rig.restart()
    knock(rig, *SERVER, "SECRET")
    knock(rig, *ANNA, "PASS")


@pytest.mark.spec("NCP 0x17/3")
def test_accounts_log_in_only_if_they_have_the_door(rig: JobRig) -> None:
    rig.run(lambda m: m.accounts.add("carl", doors=(Door.HTTP,), netware_password="Pw"))
    assert rig.manager.accounts.find("carl").ncp == b""
    with rig.completion(0xDC):
        knock(rig, NWOT_USER, "CARL", "PW")
    rig.run(lambda m: m.accounts.add("dora", doors=(Door.NCP,), netware_password="Pw"))
    station = knock(rig, NWOT_USER, "DORA", "PW")
    lost = msgspec.structs.replace(rig.manager.accounts.find("dora"), doors=(Door.HTTP,))
    rig.run(lambda m: m.accounts.replace(lost))
    assert rig.manager.bindery.object_of(station) is None  # from the next call on


def test_with_another_key_file_nobody_logs_in_and_the_log_says_why(rig: JobRig) -> None:
    rig.manager.certificates.key_file = lambda: b"t" * 32
    rig.events.clear()
    with rig.completion(0xDC):
        knock(rig, *SERVER, "SECRET")
    rig.turn()
    assert "another key file" in str(rig.events)


@pytest.mark.spec("QMS Creating Queue Servers/3")
def test_passwords_are_changed_by_who_knows_them_or_by_supervisors(rig: JobRig) -> None:
    eva = rig.user("EVA")
    with rig.completion(0xFF):
        rig.bindery("change_object_password", eva, *SERVER, "wrong", "new")
    rig.bindery("change_object_password", eva, *SERVER, "SECRET", "new")
    rig.bindery("verify_password", eva, *SERVER, "NEW")
    with rig.completion(0xFF):
        rig.bindery("verify_password", eva, *SERVER, "SECRET")
    with rig.completion(0xD8):
        rig.bindery("change_object_password", rig.super, *SERVER, "", "")
    with rig.completion(0xFF):
        rig.bindery("change_object_password", rig.super, *SERVER, "", "x" * 128)
    with rig.completion(0xDC):
        rig.bindery("change_object_password", eva, NWOT_JOB_SERVER, "SRV2", "", "mine")
    with rig.completion(0xFC):
        rig.bindery("change_object_password", rig.super, NWOT_JOB_SERVER, "NONE", "", "x")
    rig.bindery("login", rig.station(), *SERVER, "new")


def test_empty_passwords_are_a_setting() -> None:
    rig = JobRig(qms=QmsSettings(empty_passwords=True))
    rig.bindery("change_object_password", rig.super, *SERVER, "", "")
    knock(rig, *SERVER, "")


def test_a_login_ends_what_was_there_before_and_logout_keeps_the_connection(rig: JobRig) -> None:
    station = knock(rig, *SERVER, "SECRET")
    rig.jobs("attach_queue_server_to_queue", station, rig.q)
    key = rig.bindery("login_key", station)
    verifier = password_hash(rig.manager.bindery.objects.get(*ANNA).id, "PASS")
    rig.bindery("login_keyed", station, *ANNA, keyed_answer(key, verifier))
    assert rig.jobs("read_queue_current_status", station, rig.q).servers == ()
    number = station.number
    rig.run(lambda m: m.stations.logout(station))
    assert (station.object_id, station.number, station.ended) == (0, number, False)
    with rig.completion(0xD3):
        rig.jobs("read_queue_current_status", station, rig.q)


def test_connections_are_numbered_from_one_on_and_bounded() -> None:
    rig = JobRig(qms=QmsSettings(stations_max=8))
    stations = [rig.station() for _ in range(8 - len(rig.manager.stations.all()))]
    assert [s.number for s in rig.manager.stations.all()] == list(range(1, 9))
    with rig.completion(0xD9):
        rig.station()
    rig.lose(stations[2])
    rig.lose(stations[2])
    assert rig.station().number == stations[2].number
    assert rig.manager.stations.find(1) is not None
    assert rig.manager.stations.find(99) is None


def test_leases_lapse_unless_they_are_used_and_sessions_take_their_stations_along(
    rig: JobRig,
) -> None:
    def begin(**how: Any) -> Station:
        station: Station = rig.run(lambda m: m.stations.begin("http", **how))
        rig.run(lambda m: m.bindery.enter(station, rig.admin, *ANNA))
        return station

    session = object()
    leased, other, owned = begin(lease_ms=60_000), begin(lease_ms=5_000), begin(owner=session)
    rig.advance(4)
    rig.run(lambda m: m.stations.touch(other))
    rig.advance(4)
    assert not other.ended
    rig.advance(2)
    assert other.ended
    assert not leased.ended
    rig.run(lambda m: m.end_session(session))
    assert owned.ended
    rig.advance(60)
    assert leased.ended
