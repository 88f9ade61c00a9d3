"""`posthouse bindery`: users, groups, queue servers and their properties."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from msgspec import UNSET

from posthouse.api.bindery import (
    MemberBody,
    ObjectCreateBody,
    ObjectJson,
    ObjectListJson,
    ObjectPasswordBody,
    ObjectSetBody,
    PropertyCreateBody,
    PropertyJson,
    PropertyListJson,
    PropertySetBody,
)
from posthouse.api.types import Done
from posthouse.cli.command import Yes, confirm, group, talking
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.output import print_json, print_pairs, print_table, say
from posthouse.cli.user import read_password
from posthouse.model.bindery import LOGGED_IN, SUPERVISOR_LEVEL

LEVELS = ("anyone", "logged-in", "object", "supervisor", "netware")
SECURITY = SUPERVISOR_LEVEL << 4 | LOGGED_IN
_PAGE = 1000

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the object; letter case does not matter.")
]
Property = Annotated[
    str, typer.Argument(metavar="PROPERTY", help="Name of the property, such as Q_USERS.")
]
Member = Annotated[
    str, typer.Argument(metavar="MEMBER", help="Object to add to the set or to remove from it.")
]
Type = Annotated[
    str,
    typer.Option(
        "--type",
        metavar="TYPE",
        help="Type of the object: user, group, job_server, job_queue, ... or a number.",
    ),
]
MemberType = Annotated[
    str,
    typer.Option(
        "--member-type",
        metavar="TYPE",
        help="Type of the member: user, group, job_server, ... or a number.",
    ),
]
SecurityOption = typer.Option(
    "--security",
    metavar="READ/WRITE",
    help=f"Who may read and who may write: {', '.join(LEVELS)}; or a number such as 0x31.",
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    inner = group(app, "bindery", "Job queues", "Bindery: objects, properties, sets, passwords.")
    inner.command("passwd")(passwd)
    objects = group(inner, "object", "", "Objects: users, groups, queues, queue servers.")
    objects.command("list")(list_objects)
    objects.command("show")(show_object)
    objects.command("create")(create_object)
    objects.command("set")(set_object)
    objects.command("delete")(delete_object)
    properties = group(inner, "property", "", "Properties of objects: items and sets.")
    properties.command("list")(list_properties)
    properties.command("show")(show_property)
    properties.command("create")(create_property)
    properties.command("write")(write_property)
    properties.command("set")(set_property)
    properties.command("delete")(delete_property)
    sets = group(inner, "set", "", "Members of sets, such as Q_USERS of a queue.")
    sets.command("list")(list_members)
    sets.command("add")(add_member)
    sets.command("remove")(remove_member)


def security_of(text: str) -> int:
    """Levels as words or as the byte."""
    read, slash, write = text.lower().partition("/")
    if slash and read in LEVELS and write in LEVELS:
        return LEVELS.index(write) << 4 | LEVELS.index(read)
    try:
        return int(text, 0)
    except ValueError:
        raise typer.BadParameter(f"security is READ/WRITE of {', '.join(LEVELS)}") from None


def shown_security(security: int) -> str:
    """The byte for people."""
    words = [LEVELS[one] if one < len(LEVELS) else str(one) for one in divmod(security, 16)]
    return f"read {words[1]}, write {words[0]}"


def _object(name: str, type: str, *more: str) -> str:
    return path_of("bindery", "objects", type, name, *more)


def _property(name: str, type: str, property: str, *more: str) -> str:
    return _object(name, type, "properties", property, *more)


def _done(remote: Remote, done: Done, text: str) -> None:
    if remote.json:
        print_json(done)
    else:
        say(text)


# -- objects


@talking
def list_objects(
    remote: Remote,
    pattern: Annotated[
        str,
        typer.Argument(
            metavar="[PATTERN]", help="Names to list; * stands for any characters, ? for one."
        ),
    ] = "*",
    type: Annotated[
        str, typer.Option("--type", metavar="TYPE", help="List only objects of this type.")
    ] = "any",
) -> None:
    """List objects of the bindery.

    Example: posthouse bindery object list --type group
    """
    found, after = list[ObjectJson](), 0
    while True:
        query: dict[str, str | int | bool | None] = {
            "type": type,
            "name": pattern,
            "after": after,
            "limit": _PAGE,
        }
        page = remote.ask(ObjectListJson, "GET", path_of("bindery", "objects"), query=query)
        found += page.objects
        if page.next is None:
            break
        after = page.next
    if remote.json:
        for one in found:
            print_json(one)
        return
    rows = ((one.name, one.type, f"{one.id:08X}", shown_security(one.security)) for one in found)
    print_table("", ("name", "type", "id", "security"), rows)


@talking
def show_object(remote: Remote, name: Name, type: Type = "user") -> None:
    """Show an object and its properties.

    Example: posthouse bindery object show EVERYONE --type group
    """
    found = remote.ask(ObjectJson, "GET", _object(name, type))
    listed = remote.ask(PropertyListJson, "GET", _object(name, type, "properties")).properties
    if remote.json:
        print_json({"object": found, "properties": listed})
        return
    _tell_object(found)
    print_table("", _COLUMNS, map(_row, listed))


def _tell_object(one: ObjectJson) -> None:
    print_pairs(
        {
            "name": one.name,
            "type": one.type,
            "id": f"{one.id:08X}",
            "security": shown_security(one.security),
            "lasts": "until the next start" if one.dynamic else "",
        }
    )


@talking
def create_object(
    remote: Remote,
    name: Name,
    type: Type,
    security: Annotated[str, SecurityOption] = "logged-in/supervisor",
    dynamic: Annotated[
        bool, typer.Option("--dynamic", help="Remove it when the queue manager is started again.")
    ] = False,
) -> None:
    """Create an object, such as a group or a queue server.

    Example: posthouse bindery object create SPARK1 --type job_server
    """
    body = ObjectCreateBody(name=name, type=type, security=security_of(security), dynamic=dynamic)
    made = remote.ask(ObjectJson, "POST", path_of("bindery", "objects"), body=body)
    if remote.json:
        print_json(made)
    else:
        say(f"{made.name}  {made.type}  {made.id:08X}")


@talking
def set_object(
    remote: Remote,
    name: Name,
    type: Type = "user",
    new_name: Annotated[str | None, typer.Option("--name", help="New name of the object.")] = None,
    security: Annotated[str | None, SecurityOption] = None,
) -> None:
    """Rename an object, or change what protects it.

    Example: posthouse bindery object set SPARK1 --type job_server --name SPARK2
    """
    body = ObjectSetBody(
        name=UNSET if new_name is None else new_name,
        security=UNSET if security is None else security_of(security),
    )
    if body == ObjectSetBody():
        raise typer.BadParameter("nothing to change: give at least one option")
    found = remote.ask(ObjectJson, "PATCH", _object(name, type), body=body)
    if remote.json:
        print_json(found)
    else:
        _tell_object(found)


@talking
def delete_object(remote: Remote, name: Name, type: Type = "user", yes: Yes = False) -> None:
    """Delete an object with its properties.

    Example: posthouse bindery object delete SPARK2 --type job_server --yes
    """
    confirm(lambda: f"Delete {name} of type {type}?", yes)
    done = remote.ask(Done, "DELETE", _object(name, type))
    _done(remote, done, f"{name.upper()} is deleted.")


@talking
def passwd(remote: Remote, name: Name, type: Type = "user") -> None:
    """Set the password of an object for logins over NCP. It is one line of standard input.

    A user's password for other doors stays as it is; `posthouse user passwd` sets all of them.

    Example: posthouse bindery passwd SPARK1 --type job_server < password.txt
    """
    password = read_password()
    if not password:
        raise typer.BadParameter("standard input holds no password")
    body = ObjectPasswordBody(password=password)
    done = remote.ask(Done, "POST", _object(name, type, "password"), body=body)
    _done(remote, done, f"{name.upper()} has a new password.")


# -- properties

_COLUMNS = ("property", "kind", "security", "value")


def _row(one: PropertyJson) -> tuple[str, ...]:
    return one.property, _kind(one), shown_security(one.security), _value(one)


def _kind(one: PropertyJson) -> str:
    return ("set" if one.set else "item") + (", dynamic" if one.dynamic else "")


def _value(one: PropertyJson) -> str:
    if one.members is not None:
        return ", ".join(_member(member.type, member.name, member.id) for member in one.members)
    if one.value is None:
        return "(not readable)"
    text = one.value.rstrip(b"\0")
    if text.isascii() and text.decode("ascii").isprintable():
        return text.decode("ascii")
    return text.hex()


def _member(type: str, name: str, id: int) -> str:
    return (name if type == "user" else f"{type}:{name}") if name else f"{id:08X}"


@talking
def list_properties(remote: Remote, name: Name, type: Type = "user") -> None:
    """List the properties of an object, with their values.

    Example: posthouse bindery property list EVERYONE --type group
    """
    listed = remote.ask(PropertyListJson, "GET", _object(name, type, "properties")).properties
    _tell_properties(remote, listed)


def _tell_properties(remote: Remote, listed: Iterable[PropertyJson]) -> None:
    if remote.json:
        for one in listed:
            print_json(one)
    else:
        print_table("", _COLUMNS, map(_row, listed))


@talking
def show_property(remote: Remote, name: Name, property: Property, type: Type = "user") -> None:
    """Show a property.

    Example: posthouse bindery property show EVERYONE GROUP_MEMBERS --type group
    """
    found = remote.ask(PropertyJson, "GET", _property(name, type, property))
    _tell_properties(remote, [found])


@talking
def create_property(
    remote: Remote,
    name: Name,
    property: Property,
    type: Type = "user",
    set: Annotated[
        bool, typer.Option("--set", help="Make it a set, which has members instead of a value.")
    ] = False,
    security: Annotated[str, SecurityOption] = "logged-in/supervisor",
    dynamic: Annotated[
        bool, typer.Option("--dynamic", help="Remove it when the queue manager is started again.")
    ] = False,
) -> None:
    """Give an object a property.

    Example: posthouse bindery property create SUPERVISOR ROOM
    """
    levels = security_of(security)
    body = PropertyCreateBody(property=property, set=set, security=levels, dynamic=dynamic)
    made = remote.ask(PropertyJson, "POST", _object(name, type, "properties"), body=body)
    _tell_properties(remote, [made])


@talking
def write_property(
    remote: Remote,
    name: Name,
    property: Property,
    text: Annotated[str | None, typer.Option("--text", help="Value as ASCII text.")] = None,
    hexadecimal: Annotated[
        str | None, typer.Option("--hex", metavar="DIGITS", help="Value as hex digits.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="File with the value; - reads standard input."),
    ] = None,
    type: Type = "user",
) -> None:
    """Write the value of a property that is an item.

    Example: posthouse bindery property write SUPERVISOR ROOM --text 'second floor'
    """
    body = PropertySetBody(value=_given(text, hexadecimal, file))
    found = remote.ask(PropertyJson, "PATCH", _property(name, type, property), body=body)
    _tell_properties(remote, [found])


def _given(text: str | None, hexadecimal: str | None, file: Path | None) -> bytes:
    given = [one for one in (text, hexadecimal, file) if one is not None]
    if len(given) != 1:
        raise typer.BadParameter("give one of --text, --hex and --file")
    try:
        if text is not None:
            return text.encode("ascii")
        if hexadecimal is not None:
            return bytes.fromhex(hexadecimal)
    except ValueError:
        raise typer.BadParameter("a value is ASCII text or pairs of hex digits") from None
    assert file is not None
    return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()


@talking
def set_property(
    remote: Remote,
    name: Name,
    property: Property,
    security: Annotated[str, SecurityOption],
    type: Type = "user",
) -> None:
    """Change who may read and write a property.

    Example: posthouse bindery property set SUPERVISOR ROOM --security logged-in/object
    """
    body = PropertySetBody(security=security_of(security))
    found = remote.ask(PropertyJson, "PATCH", _property(name, type, property), body=body)
    _tell_properties(remote, [found])


@talking
def delete_property(
    remote: Remote, name: Name, property: Property, type: Type = "user", yes: Yes = False
) -> None:
    """Delete a property of an object.

    Example: posthouse bindery property delete SUPERVISOR ROOM --yes
    """
    confirm(lambda: f"Delete {property} of {name}?", yes)
    done = remote.ask(Done, "DELETE", _property(name, type, property))
    _done(remote, done, f"{name.upper()} no longer has {property.upper()}.")


# -- sets


@talking
def list_members(remote: Remote, name: Name, property: Property, type: Type = "user") -> None:
    """List the members of a set.

    Example: posthouse bindery set list EVERYONE GROUP_MEMBERS --type group
    """
    found = remote.ask(PropertyJson, "GET", _property(name, type, property))
    members = found.members or []
    if remote.json:
        for one in members:
            print_json(one)
    else:
        rows = ((one.name or "(gone)", one.type, f"{one.id:08X}") for one in members)
        print_table("", ("name", "type", "id"), rows)


@talking
def add_member(
    remote: Remote,
    name: Name,
    property: Property,
    member: Member,
    type: Type = "user",
    member_type: MemberType = "user",
) -> None:
    """Add an object to a set.

    Example: posthouse bindery set add EVERYONE GROUP_MEMBERS SUPERVISOR --type group
    """
    body = MemberBody(name=member, type=member_type)
    done = remote.ask(Done, "POST", _property(name, type, property, "add"), body=body)
    _done(remote, done, f"{member.upper()} is in {property.upper()} of {name.upper()}.")


@talking
def remove_member(
    remote: Remote,
    name: Name,
    property: Property,
    member: Member,
    type: Type = "user",
    member_type: MemberType = "user",
) -> None:
    """Remove an object from a set.

    Example: posthouse bindery set remove EVERYONE GROUP_MEMBERS SUPERVISOR --type group
    """
    body = MemberBody(name=member, type=member_type)
    done = remote.ask(Done, "POST", _property(name, type, property, "remove"), body=body)
    _done(remote, done, f"{member.upper()} is no longer in {property.upper()} of {name.upper()}.")
