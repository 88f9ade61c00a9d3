"""Operations: work on many messages that the server does by itself."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from posthouse.api.failures import GroupKey
from posthouse.api.types import FilterText, Json, LookupId, Name

LOOKUP_IDS_MAX = 10_000
KEY_MAX = 64
OperationKey = Annotated[
    str, Meta(pattern=f"^[0-9A-Za-z._-]{{8,{KEY_MAX}}}$", min_length=8, max_length=KEY_MAX)
]
Act = Literal["move", "copy", "delete", "resend", "return"]


class OperationBody(Json, kw_only=True):
    """What to do with which messages of a queue.

    Without `where` and `lookup_ids` all messages are meant. `group` is a group of failures, for
    `return`. `to` is needed for `move` and `copy`; without it `resend` and `return` go where each
    message belongs. A dry run counts, and keeps lookup ids as a sample. `key` is a name that you
    draw: a request that is repeated with it is answered by the operation that it began, as long as
    that is kept, also after a restart. Another request under the same key is refused.
    """

    act: Act
    queue: Name
    to: Name | None = None
    where: FilterText | None = None
    lookup_ids: Annotated[list[LookupId], Meta(min_length=1, max_length=LOOKUP_IDS_MAX)] | None = (
        None
    )
    group: GroupKey | None = None
    dry_run: bool = False
    key: OperationKey | None = None


class OperationParams(Json):
    """An operation by its number."""

    operation: Annotated[int, Meta(ge=1, lt=1 << 32)]


class OperationJson(Json):
    """An operation. `state` is running, stopping, stopped, done, failed or interrupted.

    An interrupted one ran when the server stopped; it goes on where it was when it is resumed, as
    stopped and failed ones do. `refused` messages stay where they are, for the reason in `error`
    and perhaps others. `where` is null for callers who do not see the content of messages.
    """

    id: int
    act: str
    queue: str
    to: str
    where: str | None
    lookup_ids: int
    group: str
    dry_run: bool
    user: str
    state: str
    begun_time: str
    changed_time: str
    total: int
    scanned: int
    matched: int
    done: int
    gone: int
    refused: int
    error: str
    sample: list[int] = msgspec.field(default_factory=list)


class ForgottenJson(Json):
    """An operation is no longer in the list."""

    dry_run: bool
    done: bool = True


class OperationListJson(Json):
    """Operations, the newest first."""

    operations: list[OperationJson]
