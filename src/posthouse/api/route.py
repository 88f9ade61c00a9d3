"""The declaration of a route: shared by servers and clients, without the function that answers."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from posthouse.api.types import Nothing
from posthouse.model.roles import Role

PREFIX: Final = "/api/v1"
JSON: Final = "application/json"
ARROW: Final = "application/vnd.apache.arrow.stream"
OCTETS: Final = "application/octet-stream"
LOOK, READ, OPERATE, ADMINISTER = Role.LOOK, Role.READ, Role.OPERATE, Role.ADMINISTER


class Route(NamedTuple):
    """A method and a path: who may, what comes in, what goes out.

    `params` holds the parameters of the path and of the query, `body` is `Nothing` where none is
    taken. `name` is unique; the server has a handler of that name.
    """

    method: str
    path: str
    role: Role
    name: str
    result: type[msgspec.Struct]
    params: type[msgspec.Struct]
    body: type[msgspec.Struct]
    status: int
    produces: str  # media type of the answer; a stream of Arrow goes over HTTP only
    consumes: str  # media type of the body; octets reach the handler as they are

    @property
    def segments(self) -> tuple[str, ...]:
        """The parts of the path; one in braces stands for a parameter."""
        return tuple(self.path.split("/")[1:])

    @property
    def takes_body(self) -> bool:
        """Whether requests carry something."""
        return self.body is not Nothing

    @property
    def body_required(self) -> bool:
        """Whether a request without a body misses something."""
        return any(field.required for field in msgspec.structs.fields(self.body))


def route(
    method: str,
    path: str,
    role: Role,
    name: str,
    result: type[msgspec.Struct],
    params: type[msgspec.Struct] = Nothing,
    body: type[msgspec.Struct] = Nothing,
    *,
    status: int = 200,
    produces: str = JSON,
    consumes: str = JSON,
) -> Route:
    """A route below the prefix, with what most routes have."""
    return Route(
        method, PREFIX + path, role, name, result, params, body, status, produces, consumes
    )
