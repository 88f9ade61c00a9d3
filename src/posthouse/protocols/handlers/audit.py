"""Writes acts to the audit log, and answers with pages of it.

An entry has the names of a call and the counts of its answer, by lists of what may be shown: a
field that is not in them is left out, so a new secret is never written by mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import UnsetType

from posthouse.api.audit import ORDINARY, AuditEntryJson, AuditPageJson, AuditParams
from posthouse.api.audit_names import act_name
from posthouse.api.route import Route
from posthouse.api.types import Nothing
from posthouse.model.errors import InvalidParameter, QueueError
from posthouse.model.message_json import parse_time, time_text
from posthouse.protocols.handlers.audit_trail import Act, AuditTrail
from posthouse.protocols.handlers.context import Context
from posthouse.protocols.handlers.refusals import AuditNotWritten, error_body
from posthouse.protocols.handlers.request_steps import Steps
from posthouse.security.accounts import user_key

_NO_DEFAULT: Final = object()
ERROR_MAX: Final = 300  # characters of a refusal
TEXT_MAX: Final = 500  # characters of one value
ITEMS_MAX: Final = 16  # of a list
_NAMES: Final = frozenset(
    [
        "queue",
        "lookup_id",
        "lookup_ids",
        "id",
        "name",
        "user",
        "users",
        "path",
        "to",
        "where",
        "statement",
        "group",
        "type",
        "property",
        "station",
        "number",
        "server",
        "server_station",
        "position",
        "target",
        "member_name",
        "member_type",
        "member",
        "query",
        "batch",
        "partition",
        "attempt",
        "who",
        "rights",
        "role",
        "doors",
        "administrator",
        "disabled",
        "queues",
        "expires",
        "directory",
        "dry_run",
        "skip",
        "all",
        "reason",
        "kind",
        "act",
        "operation",
        "label",
        "transactional",
        "quota_kib",
        "journal",
        "journal_quota_kib",
        "authenticated",
        "privacy",
        "base_priority",
        "object",
        "fingerprint",
        "url",
    ]
)
"""Fields of parameters and bodies that may stand in an entry."""
_COUNTS: Final = frozenset(
    ["matched", "done", "gone", "refused", "count", "messages", "id", "dry_run", "returned"]
)
"""Fields of answers that may stand in an entry."""


def is_audited(route: Route) -> bool:
    """Whether calls of a route are acts of an operator."""
    return route.method != "GET" and route.name not in ORDINARY


def object_of(params: msgspec.Struct, body: object) -> dict[str, Any]:
    """The names in a call: those that may be shown, each of a bounded size."""
    found: dict[str, Any] = {}
    for part in (params, body):
        if isinstance(part, msgspec.Struct):
            for name in part.__struct_fields__:
                value = getattr(part, name)
                if name in _NAMES and value != _defaults(type(part)).get(name, _NO_DEFAULT):
                    found[name] = _bounded(value)
    return found


@cache
def _defaults(kind: type[msgspec.Struct]) -> dict[str, object]:
    """What fields are where a call does not give them: no need to write that."""
    return {
        one.name: one.default
        for one in msgspec.structs.fields(kind)
        if one.default is not msgspec.NODEFAULT
    }


def result_of(value: object) -> dict[str, Any]:
    """The counts of an answer."""
    if not isinstance(value, msgspec.Struct):
        return {}
    info = getattr(value, "info", None)  # of a token: its identifier, not its text
    parts = [value, info] if isinstance(info, msgspec.Struct) else [value]
    return {
        name: _bounded(getattr(part, name))
        for part in parts
        for name in part.__struct_fields__
        if name in _COUNTS and isinstance(getattr(part, name), int | str)
    }


def outcome_of(error: Exception | None) -> tuple[str, str]:
    """What came of an act, and why it was refused."""
    if isinstance(error, QueueError):
        shown = error_body(error)
        return "refused", f"{shown.name}: {shown.cause}"[:ERROR_MAX]
    return "done" if error is None else "failed", ""


def begin_act(
    trail: AuditTrail, act: Act, start: Callable[[], None], refuse: Callable[[QueueError], None]
) -> None:
    """Starts an act; where the audit log has to have it first, when that is durable."""

    def begun(error: Exception | None) -> None:
        if error is None:
            start()
        else:
            refuse(AuditNotWritten(f"the audit log cannot be written: {error}"))

    if trail.required:
        trail.begin(act, begun)
    else:
        start()


def is_dry_run(*parts: object) -> bool:
    """Whether a call changes nothing, by its parameters, its body or its answer."""
    return any(getattr(part, "dry_run", False) is True for part in parts)


def _bounded(value: object) -> Any:
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [_bounded(item) for item in value[:ITEMS_MAX]] + (
            [f"and {len(value) - ITEMS_MAX} more"] if len(value) > ITEMS_MAX else []
        )
    text = str(value)
    return text if len(text) <= TEXT_MAX else text[:TEXT_MAX] + "..."


def show_audit(context: Context, params: AuditParams, body: Nothing) -> Steps[AuditPageJson]:
    """Shows acts of operators: who did what, from where, when, and what came of it."""
    context.require_administrator()
    if not isinstance(params.before, UnsetType) and not isinstance(params.after, UnsetType):
        raise InvalidParameter(
            "a page continues with `before` or with `after`", "Give one of the two."
        )
    matches = _matcher(params)
    context.services.audit.settle()
    answer = yield context.services.offload(lambda: context.services.audit.page(params, matches))
    assert isinstance(answer.value, AuditPageJson)
    return answer.value


def _matcher(params: AuditParams) -> Callable[[AuditEntryJson], bool]:
    since = "" if isinstance(params.since, UnsetType) else time_text(parse_time(params.since))[:-1]
    user = None if isinstance(params.user, UnsetType) else user_key(params.user)
    act = None if isinstance(params.act, UnsetType) else params.act.casefold()

    def matches(entry: AuditEntryJson) -> bool:
        return (
            entry.time >= since
            and (user is None or user_key(entry.user) == user)
            and (act is None or act in entry.act or act in act_name(entry.act).casefold())
        )

    return matches
