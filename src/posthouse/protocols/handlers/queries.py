"""Statements of SQL: what the API does about them. They run in a process of their own."""

from __future__ import annotations

from posthouse.api.queries import QueryBody, QueryResultJson
from posthouse.api.types import Nothing
from posthouse.model.extras import install_there
from posthouse.protocols.handlers.context import Context
from posthouse.protocols.handlers.query_limits import QueryCall
from posthouse.protocols.handlers.refusals import Unavailable
from posthouse.protocols.handlers.request_steps import Steps


def run_query(context: Context, params: Nothing, body: QueryBody) -> Steps[QueryResultJson]:
    """Answers one statement of SQL that only reads, over queues, journals and the lake.

    Messages are read with the rights of the caller. Rows, time and memory are bounded; a query
    ends when its caller leaves.
    """
    services = context.services
    if services.query is None:
        raise unavailable("this queue manager answers no queries")
    run, caller = services.query, context.caller
    whole = caller.is_administrator and caller.scopes is None and not context.view.patterns
    call = QueryCall(body.statement, body.rows, caller, context.role, context.token_id, whole)
    with services.queries.running(caller):
        answer = yield context.memory.until_gone(lambda: run(call))
    assert isinstance(answer.value, QueryResultJson)
    return answer.value


def unavailable(cause: str, remedy: str = "") -> Unavailable:
    """Return the refusal of a query that this installation cannot answer."""
    return Unavailable(cause, remedy or install_there())
