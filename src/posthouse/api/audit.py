"""The audit log: which calls are acts of an operator, and the fields of an entry."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from posthouse.api.types import Json, Time

ORDINARY: Final = frozenset(
    {
        # what applications do with messages, all day long
        "send_message",
        "receive_message",
        "receive_messages",
        "lease_messages",
        "end_lease",
        "renew_lease",
        # reads and writes of pipelines
        "plan_reads",
        "split_range",
        "lease_group",
        "claim_messages",
        "acknowledge_messages",
        "put_stage",
        "publish_batch",
        "take_messages",
        # stations, their jobs and their queue servers
        "open_station",
        "renew_station",
        "login_station",
        "logout_station",
        "restore_rights",
        "end_station",
        "verify_object_password",
        "contains_member",
        "attach_server",
        "detach_server",
        "set_server_status",
        "submit_job",
        "write_job_file",
        "close_job_file",
        "start_job",
        "service_job",
        "report_job_progress",
        "finish_job",
        "abort_job",
        "take_client_rights",
        "make_client_token",
    }
)
"""Routes that change something and are the work of applications, not acts of operators."""
SIGN_IN: Final = "sign_in"
"""Sign-ins to the console, and refused ones over HTTP and RPC."""
Text = Annotated[str, Meta(max_length=256)]
Number = Annotated[int, Meta(ge=0, lt=1 << 62)]


class AuditEntryJson(Json):
    """An act of an operator: who, from where, when, what, on which object, and what came of it.

    `object` holds the names that the call had, and `result` the counts of its answer: no body, no
    secret, no content of a message.
    """

    seq: int
    time: str
    user: str
    role: str
    token: str  # identifier of the token, or what stands for a password; empty at the socket
    address: str
    act: str
    object: dict[str, Any]
    outcome: str  # begun, done, refused, failed; of an operation its state
    error: str = ""
    result: dict[str, Any] = msgspec.field(default_factory=dict)


class AuditParams(Json):
    """Which entries to show: the newest first, or with `after` the oldest first.

    `before` and `after` are numbers of entries; `next` of a page goes into the one that was used.
    """

    before: Number | UnsetType = UNSET
    after: Number | UnsetType = UNSET
    since: Time | UnsetType = UNSET
    user: Text | UnsetType = UNSET
    act: Text | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class AuditPageJson(Json):
    """Entries, where the next page goes on, and entries that could not be written so far."""

    entries: list[AuditEntryJson]
    next: int | None
    unwritten: int = 0
