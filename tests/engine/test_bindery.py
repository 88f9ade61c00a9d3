"""The bindery: objects, properties, sets, and every check on them (qms-facts 4, 5)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.jobs.settings import QmsSettings
from posthouse.model.bindery import (
    DYNAMIC,
    GROUP_MEMBERS,
    GROUPS_IM_IN,
    NO_OBJECT,
    NWOT_ARCHIVE_QUEUE,
    NWOT_ARCHIVE_SERVER,
    NWOT_FILE_SERVER,
    NWOT_JOB_QUEUE,
    NWOT_JOB_SERVER,
    NWOT_PRINT_QUEUE,
    NWOT_PRINT_SERVER,
    NWOT_USER,
    NWOT_USER_GROUP,
    NWOT_WILD,
    Q_DIRECTORY,
    Q_OPERATORS,
    Q_SERVERS,
    Q_USERS,
    SECURITY_EQUALS,
    SET,
    AccessLevel,
    matches,
    object_name,
)
from posthouse.model.errors import QmsError
from posthouse.security.accounts import Door
from tests.engine.job_rig import PATH, JobRig

QUEUE = (NWOT_JOB_QUEUE, "JOBS")
PRINTER = (NWOT_PRINT_SERVER, "PS1")


@pytest.fixture
def rig() -> JobRig:
    return JobRig()


def scan(rig: JobRig, station: Any, kind: int = NWOT_WILD, pattern: str = "*") -> list[str]:
    names: list[str] = []
    last = NO_OBJECT
    while True:
        try:
            found = rig.bindery("scan_object", station, last, kind, pattern)
        except QmsError as end:
            return names if end.completion == 0xFC else []
        names.append(found.name)
        assert last == NO_OBJECT or found.id > last
        last = found.id


def properties(rig: JobRig, station: Any, kind: int, name: str, pattern: str = "*") -> list[Any]:
    found: list[Any] = []
    instance = NO_OBJECT
    while True:
        try:
            info = rig.bindery("scan_property", station, kind, name, instance, pattern)
        except QmsError as end:
            ended = end.completion == 0xFB and not (found and found[-1].more)
            return found if ended else []
        found.append(info)
        instance = info.instance


# -- objects


@pytest.mark.spec("QMS Queue Object/1", "QMS Queue Object/2", "NCP 0x35/1", "QMS Table 23/1")
def test_a_queue_is_an_object_with_name_type_id_and_security(rig: JobRig) -> None:
    info = rig.bindery("get_object_id", rig.super, *QUEUE)
    assert (info.id, info.type, info.name, info.security) == (rig.q, NWOT_JOB_QUEUE, "JOBS", 0x30)
    assert info.has_properties
    assert rig.bindery("get_object_name", rig.super, rig.q) == info
    with rig.completion(0xEE):
        rig.jobs("create_queue", rig.super, NWOT_JOB_QUEUE, "jobs", PATH)
    other = rig.jobs("create_queue", rig.super, NWOT_PRINT_QUEUE, "JOBS", PATH)
    assert other != rig.q


@pytest.mark.spec("NCP 0x35/2")
def test_unknown_objects_are_no_such_object_in_both_directions(rig: JobRig) -> None:
    with rig.completion(0xFC):
        rig.bindery("get_object_id", rig.super, NWOT_USER, "NOBODY")
    with rig.completion(0xFC):
        rig.bindery("get_object_name", rig.super, 0x7777)


@pytest.mark.spec("QMS Queues and the Bindery/2")
def test_another_bindery_knows_nothing_of_a_queue(rig: JobRig) -> None:
    other = JobRig()
    rig.jobs("create_queue", rig.super, NWOT_JOB_QUEUE, "HERE", PATH)
    with other.completion(0xFC):
        other.bindery("get_object_id", other.super, NWOT_JOB_QUEUE, "HERE")


@pytest.mark.spec("QMS Queue Object/6", "QMS Queue Object/5", "NCP 0x37/1")
def test_anybody_scans_for_queues_even_before_login(rig: JobRig) -> None:
    rig.jobs("create_queue", rig.super, NWOT_JOB_QUEUE, "JOIN", PATH)
    stranger = rig.station()
    assert scan(rig, stranger, NWOT_JOB_QUEUE) == ["JOBS", "JOIN"]
    assert scan(rig, stranger, NWOT_JOB_QUEUE, "jo?n") == ["JOIN"]
    assert scan(rig, stranger) == ["ALPHA", "JOBS", "JOIN"]  # users are for those logged in
    assert {"ANNA", "SRV1", "EVERYONE", "SUPERVISOR"} <= set(scan(rig, rig.user("EVA")))
    anna = rig.bindery("get_object_id", stranger, NWOT_USER, "ANNA")  # a login needs the ID
    with rig.completion(0xF2):
        rig.bindery("get_object_name", stranger, anna.id)


@pytest.mark.spec("NCP 0x32/1", "QMS Supervisors/1", "QMS Creating Queue Servers/1")
def test_only_supervisors_create_objects(rig: JobRig) -> None:
    create = ("create_object", rig.super, NWOT_PRINT_SERVER, "PS1")
    assert rig.bindery(*create).type == NWOT_PRINT_SERVER
    with rig.completion(0xEE):
        rig.bindery("create_object", rig.super, NWOT_PRINT_SERVER, "ps1")
    for station in (rig.user("ANNA"), rig.user("OTTO"), rig.server("SRV1"), rig.station()):
        with rig.completion(0xF5):
            rig.bindery("create_object", station, NWOT_PRINT_SERVER, "PS2")
        with rig.completion(0xF4):
            rig.bindery("delete_object", station, NWOT_PRINT_SERVER, "PS1")
    assert rig.bindery("get_object_id", rig.super, NWOT_PRINT_SERVER, "PS1").name == "PS1"
    rig.bindery("delete_object", rig.super, NWOT_PRINT_SERVER, "PS1")


@pytest.mark.spec("QMS Q_SERVERS/5", "QMS Creating Queue Servers/2")
@pytest.mark.parametrize("kind", [NWOT_PRINT_SERVER, NWOT_JOB_SERVER, NWOT_ARCHIVE_SERVER, 0x8001])
def test_queue_servers_are_of_any_type(rig: JobRig, kind: int) -> None:
    made = rig.bindery("create_object", rig.super, kind, "WORKER")
    assert rig.bindery("get_object_id", rig.super, kind, "WORKER").id == made.id
    rig.bindery("add_object_to_set", rig.super, *QUEUE, Q_SERVERS, kind, "WORKER")


@pytest.mark.spec("NCP 0x32/1")
@pytest.mark.parametrize(
    "name", ["", "A" * 48, *["A B", "A/B", "A\\B", "A:B", "A;B", "A,B", "Ä", "A\x00"]]
)
def test_illegal_names_are_refused(rig: JobRig, name: str) -> None:
    with rig.completion(0xEF):
        rig.bindery("create_object", rig.super, NWOT_JOB_SERVER, name)


@pytest.mark.spec("NCP 0x32/2")
def test_wildcards_are_for_scans_only(rig: JobRig) -> None:
    for name in ("A*", "A?"):
        with rig.completion(0xF0):
            rig.bindery("create_object", rig.super, NWOT_JOB_SERVER, name)
        with rig.completion(0xF0):
            rig.bindery("get_object_id", rig.super, NWOT_JOB_SERVER, name)
        with rig.completion(0xF0):
            rig.bindery("read_property_value", rig.super, *QUEUE, "Q_*", 1)
    with rig.completion(0xF0):
        rig.bindery("create_object", rig.super, NWOT_WILD, "ANY")


@pytest.mark.spec("NCP 0x33/1", "QMS Creating Queue Servers/8", "QMS Servicing/2")
def test_a_deleted_server_is_in_no_set_and_cannot_attach(rig: JobRig) -> None:
    server = rig.attach()
    rig.bindery("create_property", rig.super, NWOT_JOB_SERVER, "SRV1", "PS_USERS", SET, 0x21)
    with rig.completion(0xF4):
        rig.bindery("delete_object", rig.user("ANNA"), NWOT_JOB_SERVER, "SRV1")
    rig.bindery("delete_object", rig.super, NWOT_JOB_SERVER, "SRV1")
    with rig.completion(0xD3):
        rig.jobs("attach_queue_server_to_queue", server, rig.q)
    status = rig.jobs("read_queue_current_status", rig.user("ANNA"), rig.q)
    assert status.servers == ()
    value = rig.bindery("read_property_value", rig.super, *QUEUE, Q_SERVERS, 1)
    assert value.value[4:] == bytes(124)  # SRV2 alone
    with rig.completion(0xFC):
        rig.bindery("login", rig.station(), NWOT_JOB_SERVER, "SRV1", "x")


def test_what_every_bindery_has_cannot_be_deleted_or_renamed(rig: JobRig) -> None:
    for kind, name in ((NWOT_USER, "SUPERVISOR"), (2, "EVERYONE"), (NWOT_FILE_SERVER, "ALPHA")):
        with rig.completion(0xF4):
            rig.bindery("delete_object", rig.super, kind, name)
        with rig.completion(0xF3):
            rig.bindery("rename_object", rig.super, kind, name, "OTHER")


def test_objects_are_renamed_by_supervisors_and_keep_their_id(rig: JobRig) -> None:
    rig.bindery("rename_object", rig.super, *QUEUE, "WORK")
    assert rig.bindery("get_object_id", rig.super, NWOT_JOB_QUEUE, "WORK").id == rig.q
    with rig.completion(0xFC):
        rig.bindery("get_object_id", rig.super, *QUEUE)
    with rig.completion(0xF3):
        rig.bindery("rename_object", rig.user("OTTO"), NWOT_JOB_QUEUE, "WORK", "JOBS")
    with rig.completion(0xEE):
        rig.bindery("rename_object", rig.super, NWOT_JOB_SERVER, "SRV1", "SRV2")
    rig.restart()
    assert rig.bindery("get_object_name", rig.super, rig.q).name == "WORK"


def test_ids_are_never_given_twice(rig: JobRig) -> None:
    seen = set()
    for _ in range(3):
        seen.add(rig.bindery("create_object", rig.super, NWOT_JOB_SERVER, "X").id)
        rig.bindery("delete_object", rig.super, NWOT_JOB_SERVER, "X")
        rig.restart()
    assert len(seen) == 3


def test_dynamic_objects_and_properties_are_gone_after_a_start(rig: JobRig) -> None:
    rig.bindery("create_object", rig.super, NWOT_JOB_SERVER, "BRIEF", DYNAMIC)
    rig.bindery("create_property", rig.super, *QUEUE, "BRIEFLY", DYNAMIC, 0x30)
    rig.bindery("create_property", rig.super, *QUEUE, "LASTING", 0, 0x30)
    rig.bindery("add_object_to_set", rig.super, *QUEUE, Q_SERVERS, NWOT_JOB_SERVER, "BRIEF")
    rig.restart()
    assert "BRIEF" not in scan(rig, rig.super)
    assert [p.name for p in properties(rig, rig.super, *QUEUE, "*L*")] == ["LASTING"]
    rig.restart()
    rig.check()


@pytest.mark.spec("QMS Queue Object/3")
def test_no_call_changes_the_type_of_a_queue(rig: JobRig) -> None:
    rig.bindery("rename_object", rig.super, *QUEUE, "WORK")
    rig.bindery("change_object_security", rig.super, NWOT_JOB_QUEUE, "WORK", 0x31)
    info = rig.bindery("get_object_name", rig.super, rig.q)
    assert (info.type, info.security) == (NWOT_JOB_QUEUE, 0x31)


def test_limits_of_the_bindery_are_settings() -> None:
    rig = JobRig(qms=QmsSettings(objects_max=11, members_max=3, properties_max=6))
    rig.bindery("create_object", rig.super, NWOT_JOB_SERVER, "LAST")
    with rig.completion(0x96):
        rig.bindery("create_object", rig.super, NWOT_JOB_SERVER, "MORE")
    with rig.completion(0x96):
        rig.bindery("create_object", rig.super, NWOT_USER, "MORE")
    rig.bindery("create_property", rig.super, *QUEUE, "ONE", SET, 0x30)
    with rig.completion(0x96):
        rig.bindery("create_property", rig.super, *QUEUE, "TWO", SET, 0x30)
    for name in ("ANNA", "BERT", "EVA"):
        rig.bindery("add_object_to_set", rig.super, *QUEUE, "ONE", NWOT_USER, name)
    with rig.completion(0x96):
        rig.bindery("add_object_to_set", rig.super, *QUEUE, "ONE", NWOT_USER, "OTTO")


# -- properties


@pytest.mark.spec("QMS Q_DIRECTORY/1", "QMS Q_DIRECTORY/2", "QMS Table 23/2", "NCP 0x3C/1")
@pytest.mark.spec(
    "QMS Creating Queues/4", "QMS Queue Properties/1", "QMS Servicing/14", "QMS Q_USERS/2"
)
def test_a_new_queue_has_its_properties_with_their_security(rig: JobRig) -> None:
    rig.jobs("create_queue", rig.super, NWOT_PRINT_QUEUE, "NEW", PATH)
    found = properties(rig, rig.super, NWOT_PRINT_QUEUE, "NEW")
    assert [(p.name, p.flags, p.security, p.has_value) for p in found] == [
        ("Q_CODE_USERS", SET, 0x30, False),
        ("Q_DIRECTORY", 0, 0x33, True),
        ("Q_OPERATORS", SET, 0x30, False),
        ("Q_SERVERS", SET, 0x30, False),
        ("Q_USERS", SET, 0x30, False),
    ]
    seen = properties(rig, rig.user("EVA"), NWOT_PRINT_QUEUE, "NEW")
    assert Q_DIRECTORY not in [p.name for p in seen]


@pytest.mark.spec("QMS Q_DIRECTORY/1", "QMS Queue Object/7")
def test_only_supervisors_see_and_write_the_directory(rig: JobRig) -> None:
    rig.bindery("read_property_value", rig.super, *QUEUE, Q_DIRECTORY, 1)
    rig.bindery("write_property_value", rig.super, *QUEUE, Q_DIRECTORY, 1, b"SYS:ELSE\0")
    for station in (rig.user("ANNA"), rig.user("OTTO"), rig.server("SRV1"), rig.station()):
        with rig.completion(0xF9):
            rig.bindery("read_property_value", station, *QUEUE, Q_DIRECTORY, 1)
        with rig.completion(0xF8):
            rig.bindery("write_property_value", station, *QUEUE, Q_DIRECTORY, 1, b"X")
        with rig.completion(0xF5):
            rig.bindery("change_object_security", station, *QUEUE, 0x00)
        with rig.completion(0xF7):
            rig.bindery("create_property", station, *QUEUE, "MINE", 0, 0x00)


@pytest.mark.spec("QMS Q_DIRECTORY/2", "QMS Q_USERS/5", "QMS Creating Queues/8")
@pytest.mark.parametrize("prop", [Q_USERS, Q_SERVERS])
def test_anyone_reads_the_sets_of_a_queue_and_supervisors_write_them(
    rig: JobRig, prop: str
) -> None:
    for station in (rig.station(), rig.user("EVA"), rig.user("OTTO"), rig.super):
        assert rig.bindery("read_property_value", station, *QUEUE, prop, 1).flags == SET
    assert not rig.bindery("is_object_in_set", rig.station(), *QUEUE, prop, NWOT_USER, "EVA")
    for station in (rig.station(), rig.user("EVA"), rig.user("OTTO"), rig.server("SRV1")):
        with rig.completion(0xF8):
            rig.bindery("add_object_to_set", station, *QUEUE, prop, NWOT_USER, "EVA")
        with rig.completion(0xF8):
            rig.bindery("delete_object_from_set", station, *QUEUE, prop, NWOT_USER, "ANNA")
    rig.bindery("add_object_to_set", rig.super, *QUEUE, prop, NWOT_USER, "EVA")
    assert rig.bindery("is_object_in_set", rig.station(), *QUEUE, prop, NWOT_USER, "EVA")
    rig.bindery("delete_object_from_set", rig.super, *QUEUE, prop, NWOT_USER, "EVA")
    assert not rig.bindery("is_object_in_set", rig.super, *QUEUE, prop, NWOT_USER, "EVA")


@pytest.mark.spec("NCP 0x41/1", "NCP 0x43/1", "NCP 0x3E/1")
def test_sets_have_members_and_items_have_values(rig: JobRig) -> None:
    with rig.completion(0xE9):
        rig.bindery("add_object_to_set", rig.super, *QUEUE, Q_USERS, NWOT_USER, "ANNA")
    with rig.completion(0xEB):
        rig.bindery("add_object_to_set", rig.super, *QUEUE, Q_DIRECTORY, NWOT_USER, "ANNA")
    with rig.completion(0xEB):
        rig.bindery("is_object_in_set", rig.super, *QUEUE, Q_DIRECTORY, NWOT_USER, "ANNA")
    with rig.completion(0xEA):
        rig.bindery("delete_object_from_set", rig.super, *QUEUE, Q_USERS, NWOT_USER, "EVA")
    with rig.completion(0xE8):
        rig.bindery("write_property_value", rig.super, *QUEUE, Q_USERS, 1, b"X")
    with rig.completion(0xF8):
        rig.bindery("write_property_value", rig.user("ANNA"), *QUEUE, Q_DIRECTORY, 1, b"X")


@pytest.mark.spec("QMS Q_SERVERS/3", "QMS Q_OPERATORS/4")
def test_members_have_to_exist_and_operators_are_users_or_groups(rig: JobRig) -> None:
    for prop in (Q_USERS, Q_SERVERS, Q_OPERATORS):
        with rig.completion(0xFC):
            rig.bindery("add_object_to_set", rig.super, *QUEUE, prop, NWOT_JOB_SERVER, "NONE")
    with rig.completion(0xFC):
        rig.bindery("add_object_to_set", rig.super, *QUEUE, Q_OPERATORS, NWOT_JOB_SERVER, "SRV1")
    rig.bindery("add_object_to_set", rig.super, *QUEUE, Q_OPERATORS, NWOT_USER_GROUP, "EVERYONE")


@pytest.mark.spec("NCP 0x3D/1", "NCP 0x3D/2")
def test_set_segments_hold_thirty_two_ids(rig: JobRig) -> None:
    rig.bindery("create_property", rig.super, *QUEUE, "MANY", SET, 0x30)
    with rig.completion(0xEC):
        rig.bindery("read_property_value", rig.super, *QUEUE, "MANY", 1)
    ids = []
    for number in range(33):
        made = rig.bindery("create_object", rig.super, NWOT_JOB_SERVER, f"S{number}")
        rig.bindery("add_object_to_set", rig.super, *QUEUE, "MANY", NWOT_JOB_SERVER, made.name)
        ids.append(made.id)
    first = rig.bindery("read_property_value", rig.super, *QUEUE, "MANY", 1)
    second = rig.bindery("read_property_value", rig.super, *QUEUE, "MANY", 2)
    assert first.value == b"".join(i.to_bytes(4, "big") for i in ids[:32])
    assert second.value == ids[32].to_bytes(4, "big") + bytes(124)
    assert (first.more, second.more, first.flags) == (True, False, SET)
    for segment in (0, 3, 255):
        with rig.completion(0xEC):
            rig.bindery("read_property_value", rig.super, *QUEUE, "MANY", segment)
    with rig.completion(0xFB):
        rig.bindery("read_property_value", rig.super, *QUEUE, "NONE", 1)


@pytest.mark.spec("QMS Queue Properties/3", "QMS Creating Queues/9", "NCP 0x39/1")
def test_applications_add_properties_of_their_own(rig: JobRig) -> None:
    rig.bindery("create_property", rig.super, *QUEUE, "DEVICE", 0, 0x30)
    with rig.completion(0xED):
        rig.bindery("create_property", rig.super, *QUEUE, "device", 0, 0x30)
    with rig.completion(0xEC):
        rig.bindery("read_property_value", rig.super, *QUEUE, "DEVICE", 1)
    rig.bindery("write_property_value", rig.super, *QUEUE, "DEVICE", 1, b"plotter", True)
    rig.bindery("write_property_value", rig.super, *QUEUE, "DEVICE", 2, b"x" * 128)
    rig.bindery("write_property_value", rig.super, *QUEUE, "DEVICE", 3, b"third")
    with rig.completion(0xEC):
        rig.bindery("write_property_value", rig.super, *QUEUE, "DEVICE", 5, b"gap")
    assert rig.bindery("read_property_value", rig.station(), *QUEUE, "DEVICE", 2).more
    rig.restart()
    rig.bindery("write_property_value", rig.super, *QUEUE, "DEVICE", 1, b"printer")
    value = rig.bindery("read_property_value", rig.super, *QUEUE, "DEVICE", 1)
    assert (value.value.rstrip(b"\0"), value.more, value.flags) == (b"printer", False, 0)
    rig.submit()
    rig.bindery("delete_property", rig.super, *QUEUE, "DEVICE")
    with rig.completion(0xFB):
        rig.bindery("delete_property", rig.super, *QUEUE, "DEVICE")


@pytest.mark.spec("QMS Creating Queue Servers/4", "QMS Creating Queue Servers/7")
def test_a_print_server_has_sets_of_its_own(rig: JobRig) -> None:
    rig.bindery("create_object", rig.super, *PRINTER)
    for prop in ("PS_USERS", "PS_OPERATORS"):
        rig.bindery("create_property", rig.super, *PRINTER, prop, SET, 0x21)  # decision 99
    rig.bindery("add_object_to_set", rig.super, *PRINTER, "PS_USERS", NWOT_USER_GROUP, "EVERYONE")
    rig.bindery("add_object_to_set", rig.super, *PRINTER, "PS_OPERATORS", NWOT_USER, "SUPERVISOR")
    station = rig._logged_in(*PRINTER)
    rig.bindery("add_object_to_set", station, *PRINTER, "PS_USERS", NWOT_USER, "EVA")  # itself
    with rig.completion(0xF8):
        rig.bindery("add_object_to_set", rig.user("EVA"), *PRINTER, "PS_USERS", NWOT_USER, "OTTO")
    assert rig.bindery("read_property_value", rig.user("EVA"), *PRINTER, "PS_USERS", 1).value
    with rig.completion(0xF9):
        rig.bindery("read_property_value", rig.station(), *PRINTER, "PS_USERS", 1)


@pytest.mark.spec("NCP security levels/1")
@pytest.mark.parametrize(
    ("level", "who"),
    [
        (0, {"nobody", "eva", "itself", "super"}),
        (1, {"eva", "itself", "super"}),
        (2, {"itself", "super"}),
        (3, {"super"}),
    ],
)
def test_security_levels_let_in_whom_they_name(rig: JobRig, level: int, who: set[str]) -> None:
    rig.bindery("create_object", rig.super, *PRINTER, 0, 0x30)
    rig.bindery("create_property", rig.super, *PRINTER, "P", 0, level | level << 4)
    rig.bindery("write_property_value", rig.super, *PRINTER, "P", 1, b"value")
    stations = {
        "nobody": rig.station(),
        "eva": rig.user("EVA"),
        "itself": rig._logged_in(*PRINTER),
        "super": rig.super,
    }
    for name, station in stations.items():
        if name in who:
            rig.bindery("read_property_value", station, *PRINTER, "P", 1)
            rig.bindery("write_property_value", station, *PRINTER, "P", 1, b"other")
            continue
        with rig.completion(0xF9):
            rig.bindery("read_property_value", station, *PRINTER, "P", 1)
        with rig.completion(0xF8):
            rig.bindery("write_property_value", station, *PRINTER, "P", 1, b"other")
        with rig.completion(0xF6):
            rig.bindery("delete_property", station, *PRINTER, "P")
        with rig.completion(0xF6):
            rig.bindery("change_property_security", station, *PRINTER, "P", 0x00)


def test_nobody_gives_more_than_he_has_and_netware_is_nobody(rig: JobRig) -> None:
    rig.bindery("create_object", rig.super, *PRINTER, 0, 0x20)
    itself = rig._logged_in(*PRINTER)
    rig.bindery("create_property", itself, *PRINTER, "OWN", 0, 0x22)
    for security in (0x33, 0x03, 0x30, 0x44):
        with rig.completion(0xF1):
            rig.bindery("create_property", itself, *PRINTER, "MORE", 0, security)
        with rig.completion(0xF1):
            rig.bindery("change_property_security", itself, *PRINTER, "OWN", security)
    for security in (0x05, 0x50, 0xFF, 0x44):
        with rig.completion(0xF1):
            rig.bindery("create_property", rig.super, *PRINTER, "MORE", 0, security)
    with rig.completion(0xF1):
        rig.bindery("create_object", rig.super, NWOT_JOB_SERVER, "X", 0, 0x5F)
    with rig.completion(0xF1):
        rig.bindery("change_object_security", rig.super, *PRINTER, 0x06)
    rig.bindery("change_object_security", rig.super, *PRINTER, 0x44)  # out of everybody's sight
    with rig.completion(0xF2):
        rig.bindery("get_object_name", rig.super, itself.object_id)
    with rig.completion(0xF7):
        rig.bindery("create_property", rig.super, *PRINTER, "PASSWORD", 0, 0x30)


def test_only_supervisors_make_anybody_somebody_else(rig: JobRig) -> None:
    rig.bindery("create_object", rig.super, *PRINTER, 0, 0x20)
    itself = rig._logged_in(*PRINTER)
    for prop in (SECURITY_EQUALS, GROUPS_IM_IN, GROUP_MEMBERS):
        with rig.completion(0xF7):
            rig.bindery("create_property", itself, *PRINTER, prop, SET, 0x22)
    rig.bindery("create_property", rig.super, *PRINTER, SECURITY_EQUALS, SET, 0x22)
    with rig.completion(0xF8):
        args = (*PRINTER, SECURITY_EQUALS, NWOT_USER, "SUPERVISOR")
        rig.bindery("add_object_to_set", itself, *args)


@pytest.mark.spec("NCP 0x46/1")
def test_access_levels_are_told(rig: JobRig) -> None:
    anna = rig.user("ANNA")
    assert rig.bindery("get_bindery_access_level", rig.super) == AccessLevel(0x33, 1)
    assert rig.bindery("get_bindery_access_level", anna) == AccessLevel(0x22, anna.object_id)
    assert rig.bindery("get_bindery_access_level", rig.station()) == AccessLevel(0, NO_OBJECT)


# -- users and groups


def test_a_user_and_an_account_are_one(rig: JobRig) -> None:
    accounts = rig.manager.accounts
    assert rig.manager.bindery.objects.of_sid(accounts.find("anna").sid) is not None
    added = rig.run(lambda m: m.accounts.add("carla"))
    carla = rig.bindery("get_object_id", rig.super, NWOT_USER, "CARLA")
    rig.bindery("delete_object", rig.super, NWOT_USER, "ANNA")
    assert "ANNA" not in [account.name for account in accounts.all()]
    rig.restart()
    assert rig.bindery("get_object_id", rig.super, NWOT_USER, "CARLA") == carla
    rig.run(lambda m: m.accounts.remove(added.name))
    with rig.completion(0xFC):
        rig.bindery("get_object_id", rig.super, NWOT_USER, "CARLA")
    with rig.completion(0xEF):
        rig.bindery("create_object", rig.super, NWOT_USER, "A+B")  # a name for servers, not users


def test_accounts_of_older_stores_become_users_with_the_next_start(rig: JobRig) -> None:
    objects = rig.manager.bindery.objects
    rig.run(lambda m: m.accounts.add("ÄNNE"))
    assert objects.of_sid(rig.manager.accounts.find("änne").sid) is None  # no name for a bindery
    sid = rig.manager.accounts.find("ANNA").sid
    from posthouse.engine.ledger.records import Change

    def forget(manager: Any) -> None:
        one, change = objects.of_sid(sid), Change()
        assert one is not None
        objects.delete(one, change)
        manager.ledger.commit(change)

    rig.run(forget)
    rig.restart()
    found = rig.manager.bindery.objects.of_sid(sid)
    assert found is not None
    assert found.name == "ANNA"


def test_an_account_that_is_disabled_or_gone_is_nobody(rig: JobRig) -> None:
    import msgspec

    anna, bert = rig.user("ANNA"), rig.user("BERT")
    accounts = rig.manager.accounts
    disabled = msgspec.structs.replace(accounts.find("ANNA"), disabled=True)
    rig.run(lambda m: m.accounts.replace(disabled))
    rig.run(lambda m: m.accounts.remove("BERT"))
    for station in (anna, bert):
        with rig.completion(0xD3):
            rig.jobs("get_queue_job_list", station, rig.q)
    assert bert.object_id == 0


@pytest.mark.spec("NCP security levels/2")
def test_groups_count_from_either_side_and_equivalents_directly_only(rig: JobRig) -> None:
    bindery = rig.manager.bindery
    anna, everyone = rig.user("ANNA").object_id, 3
    assert bindery.identity(anna) == {anna, everyone}
    rig.group("SALES", "ANNA")
    sales = rig.bindery("get_object_id", rig.super, NWOT_USER_GROUP, "SALES").id
    assert bindery.identity(anna) == {anna, everyone, sales}
    args = (NWOT_USER_GROUP, "SALES", GROUP_MEMBERS, NWOT_USER, "ANNA")
    assert rig.bindery("is_object_in_set", rig.super, *args)
    rig.bindery("delete_object_from_set", rig.super, *args)
    assert sales in bindery.identity(anna)  # GROUPS_I'M_IN still says so
    side = (NWOT_USER, "ANNA", GROUPS_IM_IN, NWOT_USER_GROUP, "SALES")
    rig.bindery("delete_object_from_set", rig.super, *side)
    assert sales not in bindery.identity(anna)
    for who, whom in (("ANNA", "BERT"), ("BERT", "SUPERVISOR")):
        args = (NWOT_USER, who, SECURITY_EQUALS, NWOT_USER, whom)
        rig.bindery("add_object_to_set", rig.super, *args)
    assert bindery.is_supervisor(rig.user("BERT"))
    assert not bindery.is_supervisor(rig.user("ANNA"))
    rig.restart()
    assert rig.manager.bindery.is_supervisor(rig.user("BERT"))
    with rig.completion(0xF8):
        rig.bindery("add_object_to_set", rig.user("ANNA"), *side)


def test_administrators_of_the_queue_manager_are_supervisors(rig: JobRig) -> None:
    from posthouse.security.sids import ADMINISTRATORS

    rig.run(lambda m: m.accounts.add("root", groups=(ADMINISTRATORS,), doors=(Door.HTTP,)))
    station = rig.station()
    caller = rig.manager.accounts.caller("root")
    rig.run(lambda m: m.bindery.enter(station, caller))
    assert rig.manager.bindery.is_supervisor(station)
    assert rig.bindery("get_bindery_access_level", station).level == 0x33
    rig.bindery("create_object", station, NWOT_ARCHIVE_SERVER, "AS1")


def test_callers_enter_as_themselves_and_nobody_else(rig: JobRig) -> None:
    from posthouse.security.access import Caller

    caller, station = rig.manager.accounts.caller("ANNA"), rig.station()
    rig.run(lambda m: m.bindery.enter(station, caller, NWOT_USER, "anna"))
    for kind, name in ((NWOT_USER, "BERT"), (NWOT_JOB_SERVER, "SRV1")):
        with rig.completion(0xF2):
            rig.bindery("enter", station, caller, kind, name)
    with rig.completion(0xF2):  # a token that is for some queues only
        rig.bindery("enter", station, caller.narrowed(((".\\private$\\x", 1),)))
    with rig.completion(0xFC):
        rig.bindery("enter", station, Caller.anonymous())
    with rig.completion(0xFC):
        rig.bindery("enter", station, rig.admin, NWOT_JOB_SERVER, "NONE")
    assert station.object_id == rig.user("ANNA").object_id


@pytest.mark.spec("QMS Creating Queues/3", "QMS Q_DIRECTORY/4")
@pytest.mark.parametrize(
    "kind", [NWOT_PRINT_QUEUE, NWOT_ARCHIVE_QUEUE, NWOT_JOB_QUEUE, 0x1234, 0xFFFE]
)
def test_queues_are_of_any_type(rig: JobRig, kind: int) -> None:
    queue = rig.jobs("create_queue", rig.super, kind, "OWN", "VOL1:DIR/SUB")
    assert rig.bindery("get_object_name", rig.station(), queue).type == kind


# -- names


@given(st.text(max_size=60))
def test_every_text_is_a_name_or_refused(text: str) -> None:
    try:
        name = object_name(text)
    except QmsError as error:
        codes = {error.completion}
    else:
        assert 1 <= len(name) <= 47
        assert object_name(name) == name
        codes = set()
    assert codes <= {0xEF, 0xF0}


@given(st.text("AB*?", max_size=8), st.text("AB", max_size=8))
def test_patterns_match_as_they_read(pattern: str, name: str) -> None:
    import re

    expression = pattern.replace("*", ".*").replace("?", ".")
    assert matches(pattern, name) == bool(re.fullmatch(expression, name))


def test_the_security_of_a_set_decides_who_gives_rights_on_a_queue(rig: JobRig) -> None:
    anna, args = rig.user("ANNA"), (*QUEUE, Q_USERS, NWOT_USER, "EVA")
    with rig.completion(0xF8):
        rig.bindery("add_object_to_set", anna, *args)
    rig.bindery("change_property_security", rig.super, *QUEUE, Q_USERS, 0x11)
    rig.bindery("add_object_to_set", anna, *args)
    assert rig.bindery("is_object_in_set", anna, *args)


def test_no_security_lets_others_than_supervisors_change_who_is_in_a_group(rig: JobRig) -> None:
    rig.group("CREW")
    rig.bindery("change_property_security", rig.super, NWOT_USER_GROUP, "CREW", GROUP_MEMBERS, 0x11)
    with rig.completion(0xF8):
        rig.bindery(
            "add_object_to_set",
            rig.user("ANNA"),
            *(NWOT_USER_GROUP, "CREW", GROUP_MEMBERS, NWOT_USER, "ANNA"),
        )
