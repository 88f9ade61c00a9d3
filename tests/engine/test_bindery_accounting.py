"""Accounting: balances and charges (QMS, Creating Queue Servers; decision 99)."""

from __future__ import annotations

import struct
from typing import Any

import pytest

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
    value = struct.pack(">ii", balance, limit).ljust(128, b"\0")
    rig.bindery("write_property_value", rig.super, *who, ACCOUNT_BALANCE, 1, value)


def balance(rig: JobRig, who: tuple[int, str]) -> int:
    value = rig.bindery("read_property_value", rig.super, *who, ACCOUNT_BALANCE, 1).value
    return int.from_bytes(value[:4], "big", signed=True)


def serve(rig: JobRig, charge: int, server: str = "SRV1") -> Any:
    number = rig.submit()
    rig.attach(server)
    rig.jobs("service_queue_job", rig.server(server), rig.q)
    rig.finish(number, server, charge=charge)
    return rig.manager.jobs.history.rows()[-1]


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


def test_balances_stay_within_their_four_bytes(rig: JobRig) -> None:
    serve(rig, 0xFFFFFFFF)
    serve(rig, 0xFFFFFFFF)
    assert balance(rig, ANNA) == -0x80000000
    assert balance(rig, SERVER) == 0x7FFFFFFF
