"""The methods of a session's door that are one route each: their entries fit routes and types."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec
import pytest

from posthouse.api.job_routes import JOB_ROUTES
from posthouse.client.ncp.calls import NcpCalls
from posthouse.client.netware_door import Door
from posthouse.qms.sessions import SessionDoor

ASKED = {
    name: one
    for name, one in vars(SessionDoor).items()
    if inspect.isfunction(one) and hasattr(one, "__wrapped__")
}
DECLARED = [name for name in dir(Door) if not name.startswith("_")]


def inside(name: str) -> dict[str, Any]:
    """What the entry of a method says."""
    own = inspect.getclosurevars(ASKED[name]).nonlocals
    return {"names": own["names"]} | dict(inspect.getclosurevars(own["ask"]).nonlocals)


@pytest.mark.parametrize("name", ASKED)
def test_the_arguments_are_parameters_and_fields_of_the_route(name: str) -> None:
    entry = inside(name)
    route, names = entry["route"], entry["names"]
    assert route in JOB_ROUTES
    assert len(names) == len(inspect.signature(ASKED[name]).parameters) - 1
    in_path = {part.strip("{}") for part in route.segments if part.startswith("{")} - {"station"}
    in_body = {one.removeprefix("body.") for one in names if one not in in_path}
    assert in_path <= set(names)
    fields = {field.name: field for field in msgspec.structs.fields(route.body)}
    assert in_body <= fields.keys()
    assert {one for one, field in fields.items() if field.required} <= in_body


@pytest.mark.parametrize("name", ASKED)
def test_what_is_returned_is_a_field_of_the_answer(name: str) -> None:
    entry, returned = inside(name), inspect.signature(ASKED[name]).return_annotation
    if not entry["answer"]:
        assert returned == "None"
        return
    fields = {field.name: field.type for field in msgspec.structs.fields(entry["route"].result)}
    assert fields[entry["answer"]].__name__ == returned


@pytest.mark.parametrize("door", [NcpCalls, SessionDoor])
@pytest.mark.parametrize("name", DECLARED)
def test_every_door_takes_the_arguments_of_the_declaration(name: str, door: type) -> None:
    """By position, and by name where the names are those of the declaration."""
    declared = list(inspect.signature(getattr(Door, name)).parameters.values())
    own = list(inspect.signature(getattr(door, name)).parameters.values())
    for wanted, found in zip(declared, own, strict=False):
        assert (wanted.annotation, wanted.default) == (found.annotation, found.default)
    assert all(more.default is not more.empty for more in own[len(declared) :])


def test_most_methods_are_entries() -> None:
    assert len(ASKED) > 20
    assert SessionDoor.destroy_queue.__doc__ == "NWDestroyQueue."
