"""The table of NCP calls: entries fit the engine's methods, the client's methods fit entries."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

import pytest

from posthouse.client.ncp.calls import NcpCalls
from posthouse.model.bindery import SUPERVISOR
from posthouse.protocols.ncp.calls.jobs import JOB_HANDLERS
from posthouse.protocols.ncp.calls.session import SESSION_HANDLERS
from posthouse.protocols.ncp.login import LOGIN_HANDLERS
from posthouse.protocols.ncp.protocol import HANDLERS
from posthouse.wire.ncp.calls import NcpCall
from posthouse.wire.ncp.functions import CALLS
from tests.engine.rig import Rig
from tests.protocols.job_queue.rig import NcpRig

BY_ENGINE = [call for call in CALLS.values() if call.engine is not None]
BY_HAND = SESSION_HANDLERS | LOGIN_HANDLERS | JOB_HANDLERS
# Wider at the engine than on the wire.
WIDER = {("tuple[int, ...]", "Collection[int] | None")}
ASKED = {
    name: one
    for name, one in vars(NcpCalls).items()
    if inspect.isfunction(one) and hasattr(one, "__wrapped__")
}


def method(call: NcpCall[Any, Any]) -> Callable[..., Any]:
    """The method that the entry names."""
    assert call.engine is not None
    part = getattr(Rig().manager, call.engine.part)
    found: Callable[..., Any] = getattr(part, call.engine.method)
    return found


def test_a_call_is_carried_out_in_one_way() -> None:
    """By the engine's method or by a handler, never by both and never by none."""
    assert HANDLERS.keys() == CALLS.keys()
    assert not {call.key for call in BY_ENGINE} & BY_HAND.keys()
    assert len(BY_ENGINE) > 50


@pytest.mark.parametrize("call", BY_ENGINE, ids=lambda call: call.number)
def test_fields_fit_the_parameters_of_the_engine(call: NcpCall[Any, Any]) -> None:
    assert call.engine is not None
    fields = call.request.record.__annotations__
    parameters = list(inspect.signature(method(call)).parameters.values())
    assert parameters[0].name == "station"
    given, rest = parameters[1:][: len(call.engine.arguments)], parameters[1:]
    assert len(given) == len(call.engine.arguments)
    for field, parameter in zip(call.engine.arguments, given, strict=True):
        pair = _words(fields[field]), _words(parameter.annotation)
        assert pair[0] == pair[1] or pair in WIDER, (field, parameter)
        assert parameter.kind is not parameter.KEYWORD_ONLY
    for left in rest[len(given) :]:
        assert left.default is not left.empty, f"{left.name} is not in the request"


def _words(annotation: Any) -> str:
    """An annotation as it is written; records of the wire keep it as a forward reference."""
    return str(getattr(annotation, "__forward_arg__", annotation))


@pytest.mark.parametrize("call", BY_ENGINE, ids=lambda call: call.number)
def test_what_the_engine_returns_fits_the_reply(call: NcpCall[Any, Any]) -> None:
    record = call.reply.record
    returned = typing.get_type_hints(method(call))["return"]
    if returned is record or not record._fields:
        return
    fields = list(typing.get_type_hints(record).values())
    if len(fields) == 1:
        assert fields == [returned]
    else:
        front = list(typing.get_type_hints(returned).values())[: len(fields)]
        assert fields == front


def test_an_entry_lists_its_arguments_or_takes_all_fields() -> None:
    """The two ways to write an entry."""
    by_number = {call.number: call.engine for call in BY_ENGINE}
    assert by_number["23/0x33"] == ("bindery", "delete_object", ("object_type", "name"))
    arguments = ("object_type", "name", "flags", "security")
    assert by_number["23/0x32"] == ("bindery", "create_object", arguments)


@pytest.mark.parametrize("name", ASKED)
def test_the_arguments_of_the_client_fit_the_fields_of_the_request(name: str) -> None:
    fields = inspect.getclosurevars(ASKED[name]).nonlocals["names"]
    inside = inspect.getclosurevars(ASKED[name]).nonlocals["ask"]
    call = inspect.getclosurevars(inside).nonlocals["call"]
    absent = inspect.getclosurevars(inside).nonlocals["absent"]
    assert call.engine is None or call.engine.method == name
    parameters = list(inspect.signature(ASKED[name]).parameters.values())[1:]
    annotations = call.request.record.__annotations__
    pairs = zip(fields, parameters, strict=True)
    assert all(_words(annotations[field]) == one.annotation for field, one in pairs)
    assert {*fields, *absent} == {*annotations}
    returned = inspect.signature(ASKED[name]).return_annotation
    record = call.reply.record
    kinds = [_words(one) for one in record.__annotations__.values()]
    by_size = {0: "None", 1: kinds[0] if kinds else ""}
    assert returned == by_size.get(len(kinds), record.__name__)


def test_the_client_has_its_documentation_and_signatures_from_the_door() -> None:
    assert len(ASKED) > 30
    assert NcpCalls.destroy_queue.__doc__ == "NWDestroyQueue."
    assert str(inspect.signature(NcpCalls.create_queue)) == (
        "(self, name: 'str', type: 'int', path: 'str') -> 'int'"
    )


def test_arguments_have_the_defaults_of_the_declaration() -> None:
    rig = NcpRig()
    rig.user(SUPERVISOR)
    root = rig.logged_in(SUPERVISOR)
    root.create_object("PRESS", 7)
    assert root.scan_object(type=7).name == "PRESS"
    assert root.scan_object(0xFFFF_FFFF, 7, pattern="P*").security == 0x31
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        root.create_object("PRESS", 7, colour=3)  # type: ignore[call-arg]
