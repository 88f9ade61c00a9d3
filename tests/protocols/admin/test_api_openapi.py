"""The OpenAPI document: it names everything, and nothing in it is free-form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from posthouse.api import types
from posthouse.api.route import JSON
from posthouse.api.routes import ROUTES
from posthouse.protocols.handlers.openapi import document
from posthouse.protocols.handlers.refusals import STATUSES
from posthouse.protocols.handlers.route_functions import BINDINGS

DOCUMENT = document("1.2.3")


def schemas(value: Any) -> Iterator[dict[str, Any]]:
    """Every object of the document that describes a JSON object."""
    if isinstance(value, dict):
        if value.get("type") == "object":
            yield value
        for item in value.values():
            yield from schemas(item)
    elif isinstance(value, list):
        for item in value:
            yield from schemas(item)


def test_no_object_is_free_form() -> None:
    """But for an entry of the audit log, which has fields of whatever call it is about."""
    entry = DOCUMENT["components"]["schemas"]["AuditEntryJson"]["properties"]
    free = [entry["object"], entry["result"]]
    found = [schema for schema in schemas(DOCUMENT) if not any(schema is one for one in free)]
    assert len(found) > 30
    for schema in found:
        assert schema["additionalProperties"] is False, schema
        assert schema["properties"], schema


def test_every_route_is_there_with_every_status() -> None:
    for route in ROUTES:
        operation = DOCUMENT["paths"][route.path][route.method.lower()]
        assert operation["summary"].endswith((".", ";", ",")) or operation["summary"]
        assert route.role.value in operation["description"]
        assert operation["responses"].keys() == {str(s) for s in (route.status, *STATUSES)}
        assert ("requestBody" in operation) == (route.takes_body or route.consumes != JSON)
        names = {parameter["name"] for parameter in operation["parameters"]}
        assert all(segment[1:-1] in names for segment in route.segments if segment[0] == "{")


def test_operations_have_names_of_their_own() -> None:
    names = [route.name for route in ROUTES]
    assert len(names) == len(set(names))
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)


def test_every_reference_leads_somewhere() -> None:
    text = str(DOCUMENT)
    known = DOCUMENT["components"]["schemas"]
    for part in text.split("#/components/schemas/")[1:]:
        assert part.partition("'")[0] in known


def test_everything_but_health_needs_a_token() -> None:
    assert DOCUMENT["security"] == [{"token": []}]
    assert DOCUMENT["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert DOCUMENT["info"]["version"] == "1.2.3"


def test_every_limit_is_in_the_document() -> None:
    limits = DOCUMENT["components"]["schemas"]["SendBody"]["properties"]
    assert limits["priority"]["maximum"] == 7
    assert limits["label"]["maxLength"] == 249
    assert limits["body"]["pattern"] == types.BASE64


def test_every_route_has_a_handler_of_its_own() -> None:
    """A handler that no route names is as wrong as a route without one."""
    bound = [binding.handler for binding in BINDINGS]
    assert len(set(bound)) == len(ROUTES)
    assert all(binding.summary for binding in BINDINGS)
