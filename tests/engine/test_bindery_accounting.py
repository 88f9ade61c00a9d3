"""Accounting: balances, charges and holds (QMS, Creating Queue Servers; decision 99)."""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.engine.bindery_accounting import packed_balance
from posthouse.model.bindery import (
    ACCOUNT_BALANCE,
    ACCOUNT_SERVERS,
    NWOT_FILE_SERVER,
    NWOT_JOB_SERVER,
    NWOT_USER,
    SET,
)
from tests.engine.job_rig import JobRig

SERVER = (NWOT_JOB_SERVER, "SRV1")
ANNA = (NWOT_USER, "ANNA")
FILE_SERVER = (NWOT_FILE_SERVER, "ALPHA")


@pytest.fixture
def rig() -> JobRig:
    """Accounting is on; SRV1 may charge."""
    rig = JobRig()
    rig.bindery("create_property", rig.super, *FILE_SERVER, ACCOUNT_SERVERS, SET, 0x31)
    rig.bindery("add_object_to_set", rig.super, *FILE_SERVER, ACCOUNT_SERVERS, *SERVER)
    for who, balance, limit in ((ANNA, 100, -50), (SERVER, 0, 0)):
        give(rig, who, balance, limit)
    return rig


def give(rig: JobRig, who: tuple[int, str], balance: int, limit: int = 0) -> None:
    rig.bindery("create_property", rig.super, *who, ACCOUNT_BALANCE, 0, 0x32)
    value = packed_balance(balance, limit)
    rig.bindery("write_property_value", rig.super, *who, ACCOUNT_BALANCE, 1, value)


def balance(rig: JobRig, who: tuple[int, str]) -> int:
    return int(rig.bindery("account_status", rig.super, *who).balance)


def serve(rig: JobRig, charge: int, server: str = "SRV1") -> Any:
    number = rig.submit()
    rig.attach(server)
    rig.jobs("service_queue_job", rig.server(server), rig.q)
    rig.finish(number, server, charge=charge)
    return rig.manager.job_queues.history.rows()[-1]


@pytest.mark.spec("QMS Creating Queue Servers/5", "QMS Q_SERVERS/6")
def test_the_file_server_tells_whether_there_is_accounting(rig: JobRig) -> None:
    scanned = rig.bindery("scan_property", rig.user("EVA"), *FILE_SERVER, 0xFFFFFFFF, "ACCOUNT_*")
    assert (scanned.name, scanned.flags) == (ACCOUNT_SERVERS, SET)
    assert rig.manager.bindery.is_accounting
    assert not JobRig().manager.bindery.is_accounting
    value = rig.bindery("read_property_value", rig.super, *SERVER, ACCOUNT_BALANCE, 1)
    assert (value.value, value.flags) == (bytes(128), 0)


def test_a_charge_goes_from_the_client_to_the_server(rig: JobRig) -> None:
    assert serve(rig, 30).charge == 30
    assert (balance(rig, ANNA), balance(rig, SERVER)) == (70, 30)
    serve(rig, 200)  # the work is done: it is booked beyond the limit, too
    assert (balance(rig, ANNA), balance(rig, SERVER)) == (-130, 230)
    rig.restart()
    assert (balance(rig, ANNA), balance(rig, SERVER)) == (-130, 230)


def test_no_charge_is_booked_where_it_may_not_be(rig: JobRig) -> None:
    assert serve(rig, 30, "SRV2").charge == 0  # not in ACCOUNT_SERVERS
    rig.bindery("delete_property", rig.super, *ANNA, ACCOUNT_BALANCE)
    assert serve(rig, 30).charge == 0
    assert balance(rig, SERVER) == 0
    other = JobRig()
    give(other, ANNA, 100)
    assert serve(other, 30).charge == 0
    assert balance(other, ANNA) == 100


def test_holds_reserve_and_charges_take_them_back(rig: JobRig) -> None:
    server = rig.server("SRV1")
    rig.bindery("submit_account_hold", server, *ANNA, 120)
    status = rig.bindery("account_status", rig.user("ANNA"), *ANNA)
    assert status == (100, -50, ((server.object_id, 120),))
    with rig.completion(0xC2):
        rig.bindery("submit_account_hold", server, *ANNA, 31)
    rig.bindery("submit_account_hold", server, *ANNA, 30)
    with rig.completion(0xC2):
        rig.bindery("submit_account_charge", server, *ANNA, 20)
    rig.bindery("submit_account_charge", server, *ANNA, 40, 50)
    assert rig.bindery("account_status", rig.super, *ANNA) == (60, -50, ((server.object_id, 100),))
    rig.lose(server)
    assert rig.bindery("account_status", rig.super, *ANNA).holds == ()


def test_only_listed_servers_charge_and_only_who_may_sees_accounts(rig: JobRig) -> None:
    for station in (rig.server("SRV2"), rig.user("BERT"), rig.station()):
        with rig.completion(0xC0):
            rig.bindery("submit_account_charge", station, *ANNA, 1)
        with rig.completion(0xC0):
            rig.bindery("submit_account_hold", station, *ANNA, 1)
        with rig.completion(0xF9):
            rig.bindery("account_status", station, *ANNA)
    with rig.completion(0xC1):
        rig.bindery("submit_account_charge", rig.server("SRV1"), NWOT_USER, "BERT", 1)


def test_sixteen_servers_may_hold_at_a_time(rig: JobRig) -> None:
    give(rig, (NWOT_USER, "BERT"), 1000)
    for number in range(17):
        name = f"H{number}"
        rig.bindery("create_object", rig.super, NWOT_JOB_SERVER, name)
        args = (*FILE_SERVER, ACCOUNT_SERVERS, NWOT_JOB_SERVER, name)
        rig.bindery("add_object_to_set", rig.super, *args)
        if number < 16:
            rig.bindery("submit_account_hold", rig.server(name), NWOT_USER, "BERT", 1)
    with rig.completion(0xC3):
        rig.bindery("submit_account_hold", rig.server("H16"), NWOT_USER, "BERT", 1)


def test_balances_stay_within_their_four_bytes(rig: JobRig) -> None:
    serve(rig, 0xFFFFFFFF)
    serve(rig, 0xFFFFFFFF)
    assert balance(rig, ANNA) == -0x80000000
    assert balance(rig, SERVER) == 0x7FFFFFFF
