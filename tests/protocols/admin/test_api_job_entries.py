"""Routes of job queues that are one method of the engine: their entries fit route and method."""

from __future__ import annotations

import inspect
import typing
from typing import Any

import msgspec
import pytest

from posthouse.api.job_routes import JOB_ROUTES
from posthouse.api.types import Done
from posthouse.protocols.handlers import netware_calls
from tests.engine.rig import Rig

ROUTES = {route.name: route for route in JOB_ROUTES}
HANDLERS = {name: one for name, one in vars(netware_calls).items() if name in ROUTES}


@pytest.mark.parametrize("name", HANDLERS)
def test_an_entry_fits_its_route_and_the_method_of_the_engine(name: str) -> None:
    route, inside = ROUTES[name], inspect.getclosurevars(HANDLERS[name]).nonlocals
    entry = inside["entry"]
    method = getattr(getattr(Rig().manager, entry.part), entry.method)
    parameters = list(inspect.signature(method).parameters.values())[1:]
    hints = typing.get_type_hints(method)
    given, rest = parameters[: len(entry.arguments)], parameters[len(entry.arguments) :]
    fields = _fields(route.params) | _fields(route.body)
    spelled = {"queue": int, "object_type": int, "property_name": str}
    for argument, parameter in zip(entry.arguments, given, strict=True):
        assert hints[parameter.name] is spelled.get(argument, fields.get(argument)), argument
        assert parameter.kind is not parameter.KEYWORD_ONLY
    assert all(one.default is not one.empty for one in rest)
    assert {*_fields(route.body)} <= {*entry.arguments}, "every field of a body is used"
    assert route.result is Done


def _fields(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """The plain types of its fields."""
    found = typing.get_type_hints(struct)
    return {name: getattr(one, "__origin__", one) for name, one in found.items()}


def test_each_entry_describes_its_route() -> None:
    assert len(HANDLERS) == 7
    assert all(one.__doc__ and one.__doc__.endswith(".") for one in HANDLERS.values())
