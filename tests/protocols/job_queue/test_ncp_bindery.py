"""The bindery over NCP: every call, and what it is refused with (qms-facts 4.2, 7.5)."""

from __future__ import annotations

import pytest

from posthouse.client.ncp.calls import NcpCalls
from posthouse.model.bindery import NWOT_PRINT_QUEUE, NWOT_USER, NWOT_USER_GROUP, SUPERVISOR
from posthouse.model.errors import QmsError
from tests.protocols.job_queue.rig import PASSWORD, NcpRig
from tests.protocols.job_queue.walk import Walk, refused

USER, GROUP, OWN = NWOT_USER, NWOT_USER_GROUP, 0x8001


@pytest.fixture
def root(rig: NcpRig) -> NcpCalls:
    rig.user(SUPERVISOR)
    return rig.logged_in(SUPERVISOR)


@pytest.fixture
def alice(rig: NcpRig) -> NcpCalls:
    rig.user("ALICE")
    return rig.logged_in("ALICE")


def scanned(calls: NcpCalls, kind: int = 0xFFFF, pattern: str = "*") -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    last = 0xFFFFFFFF
    while True:
        try:
            one = calls.scan_object(last, kind, pattern)
        except QmsError as error:
            if error.completion != 0xFC:
                raise
            return found
        found.append((one.name, one.type))
        last = one.id


@pytest.mark.spec("NCP 0x32/1", "NCP 0x32/2")
def test_objects_are_created_by_supervisors_only(root: NcpCalls, alice: NcpCalls) -> None:
    root.create_object("JS1", 5, 0, 0x31)
    refused(0xEE, root.create_object, "js1", 5)
    refused(0xF5, alice.create_object, "JS2", 5)
    for name in ("", "A B", "A/B", "A:B", "A\x07"):
        refused(0xEF, root.create_object, name, OWN)
    for name in ("A*", "A?"):
        refused(0xF0, root.create_object, name, OWN)
    with pytest.raises(QmsError):
        root.create_object("ANY", 0xFFFF)


@pytest.mark.spec("NCP 0x33/1")
def test_objects_are_deleted_with_their_properties(root: NcpCalls, alice: NcpCalls) -> None:
    root.create_object("THING", OWN, 0, 0x30)
    root.create_property("THING", OWN, "NOTE", 0, 0x30)
    refused(0xF4, alice.delete_object, "THING", OWN)
    root.delete_object("THING", OWN)
    refused(0xFC, root.get_object_id, "THING", OWN)
    refused(0xFC, root.read_property_value, "THING", OWN, "NOTE")


def test_objects_are_renamed(root: NcpCalls, alice: NcpCalls) -> None:
    root.create_object("THING", OWN, 0, 0x30)
    refused(0xF3, alice.rename_object, "THING", OWN, "MATTER")
    known = root.get_object_id("THING", OWN)
    root.rename_object("THING", OWN, "matter")
    assert root.get_object_name(known) == ("MATTER", OWN)


@pytest.mark.spec("NCP 0x35/1", "NCP 0x35/2", "QMS Creating Queue Servers/2")
def test_names_and_ids_lead_to_each_other(root: NcpCalls) -> None:
    root.create_object("JS1", 5)
    known = root.get_object_id("js1", 5)
    assert root.get_object_name(known) == ("JS1", 5)
    refused(0xFC, root.get_object_id, "JS1", 7)
    refused(0xFC, root.get_object_name, 0x12345678)


@pytest.mark.spec("NCP 0x35/1")
def test_an_id_is_told_before_the_login_that_needs_it(rig: NcpRig) -> None:
    made = rig.user("ALICE")
    assert rig.client().get_object_id("ALICE", USER) == made


@pytest.mark.spec("NCP 0x37/1", "QMS Queue Object/6")
def test_scans_go_by_id_type_and_pattern(rig: NcpRig, root: NcpCalls) -> None:
    for name in ("PQ1", "PQ2", "XQ"):
        rig.queue(name, NWOT_PRINT_QUEUE)
    nobody = rig.client()
    assert scanned(nobody, NWOT_PRINT_QUEUE) == [("PQ1", 3), ("PQ2", 3), ("XQ", 3)]
    assert scanned(nobody, 0xFFFF, "P*") == [("PQ1", 3), ("PQ2", 3)]
    assert scanned(nobody, NWOT_PRINT_QUEUE, "?Q") == [("XQ", 3)]
    assert scanned(nobody, NWOT_PRINT_QUEUE, "NONE") == []
    found = nobody.scan_object(0xFFFFFFFF, NWOT_PRINT_QUEUE, "PQ1")
    assert (found.flags, found.security, found.has_properties) == (0, 0x30, True)
    assert (SUPERVISOR, USER) in scanned(root)


@pytest.mark.spec("NCP 0x39/1")
def test_properties_are_created_once(root: NcpCalls, alice: NcpCalls) -> None:
    root.create_object("THING", OWN, 0, 0x30)
    root.create_property("THING", OWN, "ITEM", 0, 0x30)
    root.create_property("THING", OWN, "SET", 2, 0x30)
    refused(0xED, root.create_property, "THING", OWN, "item", 0, 0x30)
    refused(0xF7, alice.create_property, "THING", OWN, "MINE", 0, 0x30)
    assert root.scan_property("THING", OWN, "SET").flags == 2
    refused(0xEC, root.read_property_value, "THING", OWN, "SET")  # nobody is in it
    root.delete_property("THING", OWN, "ITEM")
    refused(0xFB, root.read_property_value, "THING", OWN, "ITEM")
    refused(0xF6, alice.delete_property, "THING", OWN, "SET")


@pytest.mark.spec("NCP 0x3C/1")
def test_properties_are_scanned_by_instance(root: NcpCalls) -> None:
    root.create_object("THING", OWN, 0, 0x30)
    root.create_property("THING", OWN, "ALPHA", 0, 0x30)
    root.create_property("THING", OWN, "BETA", 2, 0x31)
    root.write_property_value("THING", OWN, "ALPHA", 1, b"x")
    first = root.scan_property("THING", OWN)
    assert (first.name, first.flags, first.security) == ("ALPHA", 0, 0x30)
    assert (first.has_value, first.more) == (True, True)
    second = root.scan_property("THING", OWN, "*", first.instance)
    assert (second.name, second.flags, second.security, second.more) == ("BETA", 2, 0x31, False)
    refused(0xFB, root.scan_property, "THING", OWN, "*", second.instance)
    refused(0xFB, root.scan_property, "THING", OWN, "GAMMA")


@pytest.mark.spec("NCP 0x3D/1", "NCP 0x3D/2", "NCP 0x3E/1", "QMS Creating Queues/9")
def test_values_are_written_and_read_by_segments(root: NcpCalls, alice: NcpCalls) -> None:
    root.create_object("THING", OWN, 0, 0x30)
    root.create_property("THING", OWN, "NOTE", 0, 0x33)
    root.write_property_value("THING", OWN, "NOTE", 1, b"one", more=True)
    root.write_property_value("THING", OWN, "NOTE", 2, b"two")
    first = root.read_property_value("THING", OWN, "NOTE", 1)
    assert first == (b"one".ljust(128, b"\0"), True, 0)
    assert root.read_property_value("THING", OWN, "NOTE", 2).more is False
    refused(0xEC, root.read_property_value, "THING", OWN, "NOTE", 3)
    refused(0xFB, root.read_property_value, "THING", OWN, "NONE", 1)
    refused(0xF9, alice.read_property_value, "THING", OWN, "NOTE", 1)
    refused(0xF8, alice.write_property_value, "THING", OWN, "NOTE", 1, b"x")
    root.create_property("THING", OWN, "SET", 2, 0x30)
    refused(0xE8, root.write_property_value, "THING", OWN, "SET", 1, b"x")


@pytest.mark.spec(
    "NCP 0x41/1", "NCP 0x43/1", "NCP 0x3D/1", "QMS Creating Queues/8", "QMS Queue Properties/2"
)
def test_sets_have_members(rig: NcpRig, root: NcpCalls) -> None:
    queue = rig.queue("PQ", NWOT_PRINT_QUEUE)
    made = rig.user("BOB")
    bob = rig.logged_in("BOB")
    of_users = "PQ", NWOT_PRINT_QUEUE, "Q_USERS"
    refused(0xD3, bob.read_queue_current_status, queue)
    assert not root.is_object_in_set(*of_users, "BOB", USER)
    root.add_object_to_set(*of_users, "BOB", USER)
    refused(0xE9, root.add_object_to_set, *of_users, "BOB", USER)
    assert root.is_object_in_set(*of_users, "BOB", USER)
    assert bob.read_queue_current_status(queue).jobs == 0  # at once
    value = root.read_property_value(*of_users).value
    assert value == made.to_bytes(4, "big").ljust(128, b"\0")
    refused(0xF8, bob.add_object_to_set, *of_users, "BOB", USER)
    root.delete_object_from_set(*of_users, "BOB", USER)
    refused(0xEA, root.delete_object_from_set, *of_users, "BOB", USER)
    refused(0xFC, root.add_object_to_set, *of_users, "NOBODY", USER)
    root.create_property("PQ", NWOT_PRINT_QUEUE, "NOTE", 0, 0x30)
    refused(0xEB, root.add_object_to_set, "PQ", NWOT_PRINT_QUEUE, "NOTE", "BOB", USER)


@pytest.mark.spec("NCP security levels/2", "QMS Q_USERS/4")
def test_a_group_counts_for_its_members(rig: NcpRig, root: NcpCalls) -> None:
    queue = rig.queue("PQ", NWOT_PRINT_QUEUE, users="EVERYONE/2")
    rig.user("BOB")
    assert rig.logged_in("BOB").read_queue_current_status(queue).jobs == 0


@pytest.mark.spec("NCP 0x46/1", "NCP security levels/1")
def test_the_access_level_is_told_with_the_own_id(rig: NcpRig, root: NcpCalls) -> None:
    made = rig.user("BOB")
    assert rig.client().get_bindery_access_level() == (0x00, 0xFFFFFFFF)
    assert rig.logged_in("BOB").get_bindery_access_level() == (0x22, made)
    assert root.get_bindery_access_level() == (0x33, 1)


@pytest.mark.spec("NCP security levels/1")
@pytest.mark.parametrize(
    ("security", "readers"),
    [
        (0x30, "nobody bob thing root"),
        (0x31, "bob thing root"),
        (0x32, "thing root"),
        (0x33, "root"),
    ],
)
def test_levels_say_who_reads_a_property(
    rig: NcpRig, root: NcpCalls, security: int, readers: str
) -> None:
    rig.user("BOB")
    rig.user("THING", OWN)
    root.change_object_security("THING", OWN, 0x30)
    root.create_property("THING", OWN, "NOTE", 0, security)
    root.write_property_value("THING", OWN, "NOTE", 1, b"x")
    clients = {
        "nobody": rig.client(),
        "bob": rig.logged_in("BOB"),
        "thing": rig.logged_in("THING", OWN, PASSWORD),
        "root": root,
    }
    for name, client in clients.items():
        if name in readers.split():
            assert client.read_property_value("THING", OWN, "NOTE").value[:1] == b"x"
        else:
            refused(0xF9, client.read_property_value, "THING", OWN, "NOTE")


def test_security_is_changed(root: NcpCalls, alice: NcpCalls) -> None:
    root.create_object("THING", OWN, 0, 0x30)
    root.create_property("THING", OWN, "NOTE", 0, 0x30)
    root.change_property_security("THING", OWN, "NOTE", 0x33)
    refused(0xF9, alice.read_property_value, "THING", OWN, "NOTE")
    refused(0xF1, root.change_object_security, "THING", OWN, 0x55)
    with pytest.raises(QmsError):
        alice.change_object_security("THING", OWN, 0x00)


def test_wildcards_are_for_scans_only(walk: Walk) -> None:
    refused(0xF0, walk.alice.get_object_id, "A*", USER)
    refused(0xF0, walk.alice.read_property_value, "ALICE", USER, "N*")
