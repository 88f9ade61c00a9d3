"""The API without any transport: a method, a path and a body in, a status and a body out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial, reduce
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

import msgspec

from posthouse.api.directory import DirectoryImportBody
from posthouse.api.encoding import encode_json
from posthouse.api.pulls import OfferBody
from posthouse.api.route import ARROW, JSON, OCTETS, Route
from posthouse.api.routes import ROUTES
from posthouse.api.sends import SendBody
from posthouse.model.errors import AccessDenied, QueueError
from posthouse.model.roles import Role
from posthouse.model.text import excerpt
from posthouse.protocols.engine_calls import Desk
from posthouse.protocols.handlers.audit import (
    begin_act,
    is_audited,
    is_dry_run,
    object_of,
    outcome_of,
    result_of,
)
from posthouse.protocols.handlers.audit_trail import Act
from posthouse.protocols.handlers.context import (
    AnswerMemory,
    Context,
    Inflow,
    Outflow,
    Services,
    Unbounded,
)
from posthouse.protocols.handlers.operation_runs import OperationRunner
from posthouse.protocols.handlers.refusals import (
    BadRequest,
    BodyTooLarge,
    MethodNotAllowed,
    NoSuchPath,
    OurFault,
    error_json,
    status_of,
)
from posthouse.protocols.handlers.repeated_names import refuse_repeated_names
from posthouse.protocols.handlers.request_steps import Conversation
from posthouse.protocols.handlers.request_trace import RequestTrace
from posthouse.protocols.handlers.route_functions import BINDINGS, Binding, Handler
from posthouse.security.access import Caller

QUERY_FIELDS_MAX = 16
_AUDITED = frozenset(route.name for route in ROUTES if is_audited(route))
_FLOAT_EXACT = 1 << 53
_SMALL = 1 << 20  # of bodies that carry no message
_LARGE = (SendBody, DirectoryImportBody, OfferBody)  # as large as a request may be at all
_DECODERS = {route.body: msgspec.json.Decoder(route.body) for route in ROUTES}

Done = Callable[[int, bytes], None]


class Matched(NamedTuple):
    """The route of a path, what answers it, and the parameters in it."""

    route: Route
    handler: Handler
    values: dict[str, str]


class _Node:
    """The routes that end here, and where the next segment leads."""

    def __init__(self) -> None:
        self.bindings: list[Binding] = []
        self.named: dict[str, _Node] = {}
        self.parameter: _Node | None = None

    def child(self, segment: str) -> _Node:
        """The node of a segment of a route; it is made where there is none."""
        if segment[:1] != "{":
            return self.named.setdefault(segment, _Node())
        self.parameter = self.parameter or _Node()
        return self.parameter

    def fitting(self, segment: str) -> Iterator[_Node]:
        """The nodes that a segment of a path leads to."""
        if segment in self.named:
            yield self.named[segment]
        if segment and self.parameter is not None:
            yield self.parameter


def _tree() -> _Node:
    root = _Node()
    for binding in BINDINGS:
        reduce(_Node.child, binding.route.segments, root).bindings.append(binding)
    return root


_TREE = _tree()
_PATHS_KEPT = 64  # the newest; a path has at most some kilobytes


class Api:
    """Answers requests of callers whose identity was proved."""

    def __init__(self, desk: Desk, services: Services) -> None:
        self.desk = desk
        self.services = services
        services.operations = OperationRunner(desk)

    def call(
        self,
        caller: Caller,
        role: Role,
        method: str,
        target: str,
        body: bytes,
        done: Done,
        memory: AnswerMemory | None = None,
        outflow: Outflow | None = None,
        inflow: Inflow | None = None,
        association: object | None = None,
        address: str = "",
        token_id: str = "",
        trace: RequestTrace | None = None,
        in_console: bool = False,
    ) -> Conversation[Any] | None:
        """Runs a request; `done` gets status and JSON, once, perhaps before this returns.

        `target` is the path with its query, percent-encoded. What is returned can be cancelled.
        `memory` is for what a search fetches, and may refuse it. A stream goes to `outflow`, and
        `done` is told of its end; a stream that is taken comes from `inflow`. `association` is the
        client session that asks, if one does, `address` where it is, `token_id` what was shown.
        `trace` is the trace context. An act of an operator is answered when the audit log has it;
        `in_console` every change is one.
        """
        act: Act | None = None
        try:
            path, _, query = target.partition("?")
            route, handler, values = match(method, path)
            if route.name in _AUDITED or (in_console and route.method != "GET"):
                act = Act(caller.name, role.value, token_id, address or "local", route.name, {})
            _check_role(route, role)
            self._check_current(caller)
            params, content = _params(route, values, query), _content(route, body)
        except QueueError as error:
            self._end_act(act, None, error, partial(self._refuse, error, done, counted=False))
            return None
        if act is not None:
            act = None if is_dry_run(params, content) else _with_names(act, params, content)
        memory = memory or Unbounded()
        context = Context(
            caller.hiding_content(),
            role,
            self.services,
            memory,
            outflow,
            inflow,
            association,
            address,
            token_id,
            trace or RequestTrace(),
        )

        def finish(value: Any, error: Exception | None) -> None:
            self._end_act(act, value, error, partial(deliver, value, error))

        def deliver(value: Any, error: Exception | None) -> None:
            if error is None:
                done(route.status, value if route.produces == OCTETS else encode_json(value))
            elif isinstance(error, QueueError):
                self._refuse(error, done, counted=error is conversation.refusal)
            else:
                self.services.fault(error)
                self._refuse(
                    OurFault("the server failed to handle this request"), done, counted=False
                )

        steps = handler(context, params, content)
        conversation: Conversation[Any] = Conversation(
            self.desk, steps, finish, looks=route.method == "GET"
        )
        self._begin_act(act, conversation.start, finish)
        return conversation

    def _begin_act(
        self,
        act: Act | None,
        start: Callable[[], None],
        finish: Callable[[Any, Exception | None], None],
    ) -> None:
        """Starts a request; an act that has to be in the audit log first waits for that."""
        if act is None:
            start()
        else:
            begin_act(self.services.audit, act, start, lambda error: finish(None, error))

    def _end_act(
        self, act: Act | None, value: Any, error: Exception | None, then: Callable[[], None]
    ) -> None:
        """Answers once the audit log has what came of an act.

        What is done with a dry run (stopped, removed from the list) changes nothing either.
        """
        if act is None or (is_dry_run(value) and not self.services.audit.required):
            then()
            return
        outcome, why = outcome_of(error)
        self.services.audit.end(act, outcome, why, result_of(value), then)

    def _check_current(self, caller: Caller) -> None:
        """A session outlives changes of its account, but not with what the account had before."""
        if self.desk.manager.machine.is_stale(caller.origin):
            raise AccessDenied(f"the account {caller.name} has changed", "Log in again.")

    def _refuse(self, error: QueueError, done: Done, *, counted: bool) -> None:
        if not counted:
            self.desk.manager.machine.refused(error)
        done(status_of(error), encode_json(error_json(error)))


def _with_names(act: Act, params: Any, content: Any) -> Act:
    return act._replace(object=object_of(params, content))


def match(method: str, path: str) -> Matched:
    """The route that a method and a path mean."""
    found, segments = _found(method, path)
    return Matched(found.route, found.handler, _values(found.route.segments, segments))


@lru_cache(_PATHS_KEPT)
def _found(method: str, path: str) -> tuple[Binding, tuple[str, ...]]:
    """The route, and the segments of the path. A request asks four times."""
    try:
        segments = tuple(unquote(part, errors="strict") for part in path.split("/")[1:])
    except UnicodeDecodeError:
        raise BadRequest("the path is not UTF-8") from None
    fitting = _fitting(segments)
    if not fitting:
        raise NoSuchPath(f"there is no path {excerpt(path)}")
    for binding in fitting:
        if binding.route.method == method:
            return binding, segments
    raise MethodNotAllowed(
        f"{excerpt(path)} does not take {excerpt(method)}",
        {binding.route.method for binding in fitting},
    )


def _check_role(route: Route, role: Role) -> None:
    if not role.includes(route.role):
        raise AccessDenied(
            f"this needs the role {route.role.value}, and yours is {role.value}",
            "Use another token; an administrator makes one with "
            f"`posthouse token create --user NAME --role {route.role.value} > FILE`.",
        )


def takes_stream(method: str, path: str, role: Role) -> bool:
    """Whether requests of this path carry a stream, not JSON.

    A method that the path does not take is refused, whatever the body is, and so is a stream of
    somebody who lacks the role for it.
    """
    try:
        route = match(method, path).route
    except MethodNotAllowed:
        raise
    except QueueError:
        return False  # which is said in its turn
    if route.consumes != ARROW:
        return False
    _check_role(route, role)
    return True


def media_of(method: str, path: str) -> tuple[str, str]:
    """What requests of a path carry and what its answers are, refusals apart."""
    try:
        route = match(method, path).route
    except QueueError:
        return JSON, JSON  # which is said in its turn
    return route.consumes, route.produces


def _fitting(segments: tuple[str, ...]) -> list[Binding]:
    """The routes of a path: a segment that a route names goes before a parameter."""
    nodes = [_TREE]
    for segment in segments:
        nodes = [child for node in nodes for child in node.fitting(segment)]
    return [binding for node in nodes for binding in node.bindings]


def _values(template: tuple[str, ...], segments: tuple[str, ...]) -> dict[str, str]:
    pairs = zip(template, segments, strict=True)
    return {want[1:-1]: have for want, have in pairs if want[:1] == "{"}


def _params(route: Route, values: dict[str, str], query: str) -> Any:
    for name, value in _query(query):
        if name in values:
            raise BadRequest(f"the parameter {excerpt(name)} is given twice")
        values[name] = value
    try:
        return msgspec.convert(values, route.params, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequest(f"parameters: {error}") from None


def _query(query: str) -> list[tuple[str, str]]:
    if not query:
        return []
    try:
        return parse_qsl(
            query,
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=QUERY_FIELDS_MAX,
        )
    except ValueError:
        raise BadRequest("the query is not name=value joined by &, in UTF-8") from None


def _content(route: Route, body: bytes) -> Any:
    if route.consumes == OCTETS:
        if len(body) > _SMALL:
            raise BodyTooLarge(f"a piece has at most {_SMALL} bytes", "Write several.")
        return body
    if not route.takes_body:
        if body:
            raise BadRequest("this request takes no body")
        return route.body()
    if not body and not route.body_required:
        return route.body()
    if len(body) > _SMALL and route.body not in _LARGE:
        raise BodyTooLarge(f"this request has at most {_SMALL} bytes", "Split the request.")
    try:
        decoded = _decoded(route, body)
        refuse_repeated_names(body)
        return decoded
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the body: {error}") from None


def _decoded(route: Route, body: bytes) -> Any:
    """JSON has one kind of number: 5.0 is as good an integer as 5."""
    try:
        return _DECODERS[route.body].decode(body)
    except msgspec.ValidationError as error:
        if "got `float`" not in str(error) or len(body) > _SMALL:
            raise
        values = _with_integers(msgspec.json.decode(body))
        return msgspec.convert(values, route.body)


def _with_integers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < _FLOAT_EXACT:
        return int(value)
    if isinstance(value, list):
        return [_with_integers(item) for item in value]
    if isinstance(value, dict):
        return {name: _with_integers(item) for name, item in value.items()}
    return value
