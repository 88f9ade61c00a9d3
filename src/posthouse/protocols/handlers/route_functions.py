"""Finds the function that answers a route: the one of the same name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final, NamedTuple

from posthouse.api.route import Route
from posthouse.api.routes import ROUTES
from posthouse.protocols.arrow import read as arrow_read
from posthouse.protocols.handlers import (
    audit,
    bindery,
    certificates,
    damage,
    directory,
    directory_names,
    explain,
    failures,
    groups,
    job_queues,
    jobs,
    leases,
    machine,
    messages,
    move_copy_delete,
    netware_calls,
    operations,
    peers,
    pulls,
    queries,
    queues,
    read_plans,
    refused,
    returning,
    stages,
    stations,
    tails,
    users,
)
from posthouse.protocols.handlers.context import Context
from posthouse.protocols.handlers.request_steps import Steps, at_once, looked_at

MODULES: Final = (
    arrow_read,
    audit,
    bindery,
    certificates,
    damage,
    directory,
    directory_names,
    explain,
    failures,
    groups,
    job_queues,
    jobs,
    leases,
    machine,
    messages,
    move_copy_delete,
    netware_calls,
    operations,
    peers,
    pulls,
    queries,
    queues,
    read_plans,
    refused,
    returning,
    stages,
    stations,
    tails,
    users,
)

Handler = Callable[[Context, Any, Any], Steps[Any]]
Plain = Callable[..., Any]


class Binding(NamedTuple):
    """A route and what answers it. The docstring of the handler describes the route."""

    route: Route
    handler: Handler
    summary: str
    description: str


def _functions() -> Iterator[tuple[str, Plain]]:
    for module in MODULES:
        yield from ((name, function) for name, function in _own(module))


def _own(module: ModuleType) -> Iterator[tuple[str, Plain]]:
    for name, value in vars(module).items():
        if callable(value) and getattr(value, "__module__", "") == module.__name__:
            yield name, value


def _runs_in_steps(handler: Plain) -> bool:
    """Whether the handler is a generator of steps; any other is one call on the engine."""
    return str(handler.__annotations__["return"]).startswith("Steps[")


def _stepwise(method: str, handler: Plain) -> Handler:
    """A handler that is one call on the engine, as one with steps."""
    once = looked_at if method == "GET" else at_once

    def steps(context: Context, params: Any, body: Any) -> Steps[Any]:
        return once(lambda manager: handler(manager, context, params, body))

    return steps


def _bound(route: Route, handler: Plain) -> Binding:
    summary, _, rest = (handler.__doc__ or "").partition("\n")
    steps = handler if _runs_in_steps(handler) else _stepwise(route.method, handler)
    return Binding(route, steps, summary.strip(), " ".join(rest.split()))


_BY_NAME: Final = dict(_functions())
BINDINGS: Final = tuple(_bound(route, _BY_NAME[route.name]) for route in ROUTES)
