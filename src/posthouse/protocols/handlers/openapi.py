"""The OpenAPI 3.1 document of the API, made from the table of routes and its types."""

from __future__ import annotations

import re
from functools import cache
from http import HTTPStatus
from typing import Any

import msgspec

from posthouse.api.encoding import encode_json
from posthouse.api.route import JSON, Route
from posthouse.api.routes import ROUTES
from posthouse.api.types import ErrorJson
from posthouse.protocols.handlers.refusals import STATUSES
from posthouse.protocols.handlers.route_functions import BINDINGS, Binding

_REFERENCE = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"\{(\w+)\}")
_ABOUT = (
    "Management of a Posthouse queue manager. Every path needs a token, as `Authorization: Bearer "
    "pht_...`. A token has the rights of its user on queues, limited by its role: metrics, look, "
    "read, operate or administer. A queue is named by its path name or format name, "
    "percent-encoded: `.%5Cprivate$%5Corders` is `.\\private$\\orders`. To send and receive at "
    "speed, to wait for messages, and for transactions over several queues, use a client session: "
    "see the page Python of the documentation."
)


@cache
def encoded(version: str) -> bytes:
    """The whole document as JSON; made once in a process, which takes a while."""
    return encode_json(document(version))


def document(version: str) -> dict[str, Any]:
    """The whole document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Posthouse",
            "version": version,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": _paths(),
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _types() -> list[type[msgspec.Struct]]:
    bodies = [route.body for route in ROUTES if route.takes_body]
    results = [route.result for route in ROUTES if route.produces == JSON]
    return list(dict.fromkeys([ErrorJson, *bodies, *results]))


def _schemas() -> dict[str, Any]:
    _, components = msgspec.json.schema_components(_types(), ref_template=_REFERENCE)
    return components


def _paths() -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for binding in BINDINGS:
        route = binding.route
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(binding)
    return paths


def _operation(binding: Binding) -> dict[str, Any]:
    route = binding.route
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": binding.summary,
        "description": f"{binding.description} Needs the role {route.role.value}.".strip(),
        "parameters": _parameters(route),
        "responses": _responses(route),
    }
    if route.consumes != JSON:
        operation["requestBody"] = {"required": True, "content": {route.consumes: {}}}
    if route.takes_body:
        operation["requestBody"] = {
            "required": route.body_required,
            "content": {"application/json": {"schema": _reference(route.body)}},
        }
    return operation


def _content(route: Route) -> dict[str, Any]:
    """What an answer holds; a stream describes itself."""
    return {"schema": _reference(route.result)} if route.produces == JSON else {}


def _reference(kind: type[msgspec.Struct]) -> dict[str, str]:
    return {"$ref": _REFERENCE.format(name=kind.__name__)}


def _parameters(route: Route) -> list[dict[str, Any]]:
    _, components = msgspec.json.schema_components([route.params])
    schema, in_path = components[route.params.__name__], set(_PARAMETER.findall(route.path))
    return [
        {
            "name": name,
            "in": "path" if name in in_path else "query",
            "required": name in schema["required"],
            "schema": value,
        }
        for name, value in schema["properties"].items()
    ]


def _responses(route: Route) -> dict[str, Any]:
    refusal = {"application/json": {"schema": _reference(ErrorJson)}}
    responses: dict[str, Any] = {
        str(route.status): {
            "description": HTTPStatus(route.status).phrase,
            "content": {route.produces: _content(route)},
        }
    }
    for status in STATUSES:
        responses[str(status)] = {"description": HTTPStatus(status).phrase, "content": refusal}
    return responses
