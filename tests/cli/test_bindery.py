"""`posthouse bindery`: objects, properties, sets, passwords."""

from __future__ import annotations

import pytest

from posthouse.cli.bindery import security_of, shown_security
from tests.cli.conftest import Posthouse


def test_objects_come_and_go(ph: Posthouse) -> None:
    made = ph("bindery", "object", "create", "press", "--type", "print_server", "--json")
    assert made.code == 0, made.err
    assert (made.value["name"], made.value["type_number"]) == ("PRESS", 7)
    listed = ph("bindery", "object", "list", "P*", "--type", "print_server", "--json").lines
    assert [one["name"] for one in listed] == ["PRESS"]
    renamed = ph(
        "bindery", "object", "set", "PRESS", "--type", "print_server", "--name", "PRESS2", "--json"
    )
    assert renamed.value["name"] == "PRESS2"
    assert ph("bindery", "object", "delete", "PRESS2", "--type", "print_server").code == 0
    gone = ph("bindery", "object", "show", "PRESS2", "--type", "print_server")
    assert (gone.code, gone.err.split(" ")[0]) == (1, "NO_SUCH_OBJECT")


def test_properties_have_values_and_sets_have_members(ph: Posthouse) -> None:
    ph("bindery", "object", "create", "CREW", "--type", "group")
    crew = ("CREW", "ROOM", "--type", "group")
    assert ph("bindery", "property", "create", *crew).code == 0
    assert ph("bindery", "property", "write", *crew, "--text", "second floor").code == 0
    assert "second floor" in ph("bindery", "property", "show", *crew).out
    members = ("CREW", "GROUP_MEMBERS", "--type", "group")
    if ph("bindery", "property", "show", *members).code:
        assert ph("bindery", "property", "create", *members, "--set").code == 0
    added = ph("bindery", "set", "add", "CREW", "GROUP_MEMBERS", "SUPERVISOR", "--type", "group")
    assert added.code == 0, added.err
    assert [one["name"] for one in ph("bindery", "set", "list", *members, "--json").lines] == [
        "SUPERVISOR"
    ]
    again = ph("bindery", "set", "add", "CREW", "GROUP_MEMBERS", "SUPERVISOR", "--type", "group")
    assert "MEMBER_ALREADY_EXISTS (0x000089E9)" in again.err
    removed = ph(
        "bindery", "set", "remove", "CREW", "GROUP_MEMBERS", "SUPERVISOR", "--type", "group"
    )
    assert removed.code == 0
    assert ph("bindery", "property", "delete", *crew).code == 0


def test_a_value_is_given_in_one_form(ph: Posthouse) -> None:
    wrong = ph("bindery", "property", "write", "SUPERVISOR", "X", "--text", "a", "--hex", "00")
    assert wrong.code == 2
    assert ph("bindery", "property", "write", "SUPERVISOR", "X", "--hex", "0x").code == 2


def test_passwords_come_from_standard_input(ph: Posthouse) -> None:
    ph("bindery", "object", "create", "HAND", "--type", "job_server")
    assert ph("bindery", "passwd", "HAND", "--type", "job_server", stdin=b"").code == 2
    assert ph("bindery", "passwd", "HAND", "--type", "job_server", stdin=b"secret\n").code == 0


def test_an_escape_in_a_value_reaches_no_terminal(ph: Posthouse) -> None:
    ph("bindery", "property", "create", "SUPERVISOR", "EVIL")
    ph("bindery", "property", "write", "SUPERVISOR", "EVIL", "--hex", "1b5b324a")
    shown = ph("bindery", "property", "show", "SUPERVISOR", "EVIL")
    assert "\x1b" not in shown.out
    assert "1b5b324a" in shown.out


@pytest.mark.parametrize(
    ("text", "byte"), [("anyone/supervisor", 0x30), ("logged-in/object", 0x21), ("0x31", 0x31)]
)
def test_security_is_written_in_words(text: str, byte: int) -> None:
    assert security_of(text) == byte
    assert shown_security(0x31) == "read logged-in, write supervisor"
