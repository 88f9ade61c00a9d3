"""What a route of the API is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from posthouse.api import types as t
from posthouse.protocols.handlers.context import Context
from posthouse.protocols.handlers.conversation import Steps, at_once, looked_at
from posthouse.security.accounts import Role

PREFIX: Final = "/api/v1"
JSON: Final = "application/json"
ARROW: Final = "application/vnd.apache.arrow.stream"
OCTETS: Final = "application/octet-stream"
READ, OPERATE, ADMINISTER = Role.READ, Role.OPERATE, Role.ADMINISTER

Handler = Callable[[Context, Any, Any], Steps[Any]]
Plain = Callable[..., Any]


class Route(NamedTuple):
    """A method and a path: who may, what comes in, what goes out.

    `params` holds the parameters of the path and of the query, `body` is `Nothing` where none is
    taken. The first line of the handler's docstring is the summary.
    """

    method: str
    path: str
    role: Role
    params: type[msgspec.Struct]
    body: type[msgspec.Struct]
    result: type[msgspec.Struct]
    handler: Handler
    name: str
    summary: str
    description: str
    status: int
    produces: str = JSON  # media type of the answer; a stream of Arrow goes over HTTP only
    consumes: str = JSON  # the same of the body; octets reach the handler as they are

    @property
    def segments(self) -> tuple[str, ...]:
        """The parts of the path; one in braces stands for a parameter."""
        return tuple(self.path.split("/")[1:])

    @property
    def takes_body(self) -> bool:
        """Whether requests carry something."""
        return self.body is not t.Nothing

    @property
    def body_required(self) -> bool:
        """Whether a request without a body misses something."""
        return any(field.required for field in msgspec.structs.fields(self.body))


def _stepwise(method: str, handler: Plain) -> Handler:
    """A handler that is one call on the engine, as one with steps."""
    once = looked_at if method == "GET" else at_once

    def steps(context: Context, params: Any, body: Any) -> Steps[Any]:
        return once(lambda manager: handler(manager, context, params, body))

    return steps


def route(
    method: str,
    path: str,
    role: Role,
    handler: Plain,
    result: type[msgspec.Struct],
    params: type[msgspec.Struct] = t.Nothing,
    body: type[msgspec.Struct] = t.Nothing,
    *,
    steps: bool = False,
    status: int = 200,
    produces: str = JSON,
    consumes: str = JSON,
) -> Route:
    """A route to a handler: one call on the engine, or one with steps."""
    summary, _, rest = (handler.__doc__ or "").partition("\n")
    return Route(
        method,
        PREFIX + path,
        role,
        params,
        body,
        result,
        handler if steps else _stepwise(method, handler),
        handler.__name__,
        summary.strip(),
        " ".join(rest.split()),
        status,
        produces,
        consumes,
    )
