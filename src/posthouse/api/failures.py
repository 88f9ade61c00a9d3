"""The types of failed messages: groups of them, and their return to where they failed.

Both answers are pages of a long queue. `add_page` of each puts pages together, within bounds.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from posthouse.api.types import ErrorBody, FilterText, Json, Name, SelectBody

GROUPS_MAX: Final = 1000
EXAMPLES_MAX: Final = 3
QUEUES_MAX: Final = 5
TARGETS_MAX: Final = 1000

GroupKey = Annotated[
    str,
    Meta(
        pattern="^s?[0-9a-f]{12}$",
        max_length=13,
        description="Key of a group of failures, as the list of failures shows it.",
    ),
]
Page = Annotated[
    str,
    Meta(
        pattern="^[0-8]-[0-9]{1,18}-[0-9]{1,18}$",
        max_length=39,
        description="`next` of the previous page.",
    ),
]


class FailuresParams(Json):
    """Which messages of a queue to group.

    With `similar`, messages of exceptions are alike that differ in numbers and GUIDs only.
    """

    queue: Name
    where: FilterText | UnsetType = UNSET
    similar: bool = False
    after: Page | UnsetType = UNSET


class ExampleJson(Json):
    """A message of a group."""

    lookup_id: int
    id: str


class FailureGroupJson(Json):
    """Messages that failed in the same way.

    `frame` is the first stack frame of the application's own code. Messages without an exception
    are told apart by their class, which is why they are dead letters, and by their type. The
    times are those of the failure, where the message has one, else of the arrival in this queue.
    """

    key: str
    exception_type: str | None
    exception_message: str | None
    frame: str | None
    class_: str = msgspec.field(name="class")
    message_type: str | None
    count: int
    first_time: str
    last_time: str
    failed_queues: list[str]
    examples: list[ExampleJson]

    def add(self, other: FailureGroupJson) -> None:
        """More messages of the group."""
        self.count += other.count
        self.first_time = min(self.first_time, other.first_time)
        self.last_time = max(self.last_time, other.last_time)
        self.examples = [*self.examples, *other.examples][:EXAMPLES_MAX]
        queues = dict.fromkeys([*self.failed_queues, *other.failed_queues])
        self.failed_queues = list(queues)[:QUEUES_MAX]


class FailuresJson(Json):
    """Groups, the largest first, and where the next page begins; null when this was the last.

    Above 1000 groups a message of yet another one counts in `others` alone.
    """

    groups: list[FailureGroupJson]
    others: int = 0
    scanned: int = 0
    next: str | None = None

    def add_page(self, page: FailuresJson) -> None:
        """The groups of these messages and of those that follow them."""
        found = {group.key: group for group in self.groups}
        for group in page.groups:
            if group.key in found:
                found[group.key].add(group)
            elif len(found) < GROUPS_MAX:
                found[group.key] = group
            else:
                self.others += group.count
        self.groups = sorted(found.values(), key=lambda group: (-group.count, group.key))
        self.others += page.others
        self.scanned += page.scanned
        self.next = page.next


class ReturnBody(SelectBody, kw_only=True):
    """Which failed messages go back: all, those a filter matches, of a group, or by lookup id.

    With `to` they go there instead of where they failed. A long queue takes several requests:
    `after` is `next` of the answer before, `skip` are the targets that have refused one so far,
    so that no message overtakes another one for the same queue.
    """

    group: GroupKey | None = None
    to: Name | None = None
    after: Page | None = None
    skip: Annotated[list[Name], Meta(max_length=TARGETS_MAX)] = msgspec.field(default_factory=list)


class ReturnTargetJson(Json):
    """What goes to one queue; with `error`, what cannot, and stays where it is.

    `to` is empty where the message does not name the queue in which it failed.
    """

    to: str
    messages: int
    done: int
    error: ErrorBody | None


class ReturnJson(Json):
    """What came of returning messages, by target; `gone` were taken by somebody else meanwhile.

    `skip` and `next` are for the request that goes on; `next` is null when all were looked at.
    """

    matched: int
    done: int
    gone: int
    refused: int
    targets: list[ReturnTargetJson]
    skip: list[str]
    scanned: int
    next: str | None
    dry_run: bool

    def add_page(self, page: ReturnJson) -> None:
        """What came of these messages and of those that follow them."""
        self.matched += page.matched
        self.done += page.done
        self.gone += page.gone
        self.refused += page.refused
        self.scanned += page.scanned
        self.skip, self.next = page.skip, page.next
        rows = {_row(one): one for one in self.targets}
        for one in page.targets:
            same = rows.get(_row(one))
            if same is not None:
                same.messages += one.messages
                same.done += one.done
            elif len(rows) < TARGETS_MAX:
                rows[_row(one)] = one
        self.targets = list(rows.values())


def _row(target: ReturnTargetJson) -> tuple[str, int]:
    return target.to, 0 if target.error is None else target.error.code


def nothing_returned(*, dry_run: bool) -> ReturnJson:
    """The answer to which pages are added."""
    return ReturnJson(
        matched=0,
        done=0,
        gone=0,
        refused=0,
        targets=[],
        skip=[],
        scanned=0,
        next=None,
        dry_run=dry_run,
    )
