"""The admin endpoint of one queue manager, as reads and streams use it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from posthouse.client import arrow_read as bulk_read
from posthouse.client.admin_http import RETRY_S, BulkHttp, segment
from posthouse.client.arrow_read import Cut, PlannedQueue, QueuePlan
from posthouse.client.groups import GroupReader, GroupState
from posthouse.model.errors import InvalidParameter, QueueDeleted, QueueNotFound
from posthouse.spark.options import Manager

UNREAD_KINDS: Final = ("internal", "outgoing")
"""Queues of the queue manager's own, which are not read as tables."""

GONE: Final = (QueueNotFound, QueueDeleted)
"""Refusals of a queue that is not there."""
IMPATIENT_S: Final = 5.0
ENVIRONMENT: Final = "env"
FILES: Final = "files"

_idle: dict[Manager, list[BulkHttp]] = {}


class Endpoint:
    """One queue manager. For one thread at a time."""

    def __init__(self, manager: Manager) -> None:
        self.manager = manager
        self._http = http_of(manager)
        self._name = ""
        self.guid = ""
        """The queue manager's GUID in small letters; empty before its first answer."""

    @property
    def name(self) -> str:
        """The queue manager's name; asked for once."""
        if not self._name:
            status = self._http.call("GET", "/status")
            self._name, self.guid = str(status["name"]), str(status["guid"]).lower()
        return self._name

    def ask_name(self) -> str:
        """The queue manager's name, asked for whether it is known or not."""
        self._name = ""
        return self.name

    def meet(self) -> None:
        """Ask for the name, and fail in seconds at an address that never answered."""
        if not self.guid:
            with self.impatient(self.manager.first_s):
                self.ask_name()

    @contextmanager
    def impatient(self, retry_s: float = 0.0) -> Iterator[None]:
        """Repeat questions for `retry_s` at most meanwhile, and let no answer take long."""
        http = self._http
        patience = http.retry_s, http.timeout_s
        http.retry_s, http.timeout_s = retry_s, min(http.timeout_s, IMPATIENT_S)
        try:
            yield
        finally:
            http.retry_s, http.timeout_s = patience

    def plan_there(
        self, wanted: Sequence[PlannedQueue], wait_ms: int = 0
    ) -> tuple[list[QueuePlan], list[PlannedQueue]]:
        """Plans of the queues that are there, and what was wanted of those that are gone."""
        try:
            return list(self.plan(wanted, wait_ms)), []
        except GONE:
            if len(wanted) == 1:
                return [], list(wanted)
        found = [self.plan_there([one]) for one in wanted]
        plans = [plan for some, _ in found for plan in some]
        return plans, [one for _, gone in found for one in gone]

    def plan(self, wanted: Iterable[PlannedQueue], wait_ms: int = 0) -> tuple[QueuePlan, ...]:
        """What there is to read, in the order that was asked for."""
        planned = bulk_read.plan(self._http, wanted, wait_ms)
        self._name, self.guid = planned.queue_manager, planned.guid.lower()
        return planned.queues

    def split(self, queue: str, cut: Cut, parts: int, max_records: int | None) -> list[Cut]:
        """A range in about this many parts of about equal bytes."""
        return bulk_read.split(self._http, queue, cut.after, cut.through, parts, max_records)

    def queue_paths(self) -> Iterator[str]:
        """The paths of all queues that the token may look at, with journals and dead letters."""
        after: int | None = 0
        while after is not None:
            page = self._http.call("GET", f"/queues?system=true&after={after}")
            for queue in page["queues"]:
                if queue["kind"] not in UNREAD_KINDS:
                    yield str(queue["path"])
            after = page["next"]

    def group(self, queue: str, name: str) -> GroupReader:
        """A group of a queue, through this connection."""
        return GroupReader(self._http, queue, name)

    def find_group(self, queue: str, name: str) -> GroupState | None:
        """How far a group is; None where there is none of that name."""
        groups = self._http.call("GET", f"/queues/{segment(queue)}/groups")["groups"]
        if all(group["name"] != name for group in groups):
            return None
        return self.group(queue, name).show()

    def set_group(self, queue: str, name: str, position: int) -> None:
        """Set the position of a group that has no reader and no claims."""
        path = f"/queues/{segment(queue)}/groups/{segment(name)}"
        self._http.call("PATCH", path, {"position": position}, repeatable=True)

    def close(self) -> None:
        """Gives the connection back."""
        self._http.close()


def token_of(place: str | None) -> tuple[str | None, str | None]:
    """A token, or the file that has it: what `tokenFile` means in this process.

    `env:NAME` is a variable of the environment, which a cluster may fill from a secret, and
    `files:NAME` a file that Spark has handed out (`--files`): plans name a secret, and hold none.
    """
    kind, colon, name = (place or "").partition(":")
    if colon and kind == ENVIRONMENT:
        token = os.environ.get(name, "").strip()
        if not token:
            raise InvalidParameter(
                f"option tokenFile names the variable {name}, which is not set here",
                "Set it for the driver and, with spark.executorEnv or a secret of the cluster, for "
                "every executor.",
            )
        return token, None
    if colon and kind == FILES:
        from pyspark.core.files import SparkFiles

        return None, SparkFiles.get(name)
    return None, place


def http_of(manager: Manager) -> BulkHttp:
    """A new connection; options that lead nowhere are refused here."""
    token, token_file = token_of(manager.token_file)
    try:
        return BulkHttp(
            manager.url,
            token=token,
            token_file=token_file,
            timeout_s=manager.timeout_s,
            retry_s=manager.retry_s,
            ca_file=manager.ca_file,
        )
    except OSError as error:
        raise InvalidParameter(
            f"the token file {manager.token_file} cannot be read: {error.strerror or error}",
            "It has to be there on every machine that runs tasks, for the user who runs them.",
        ) from error
    except ValueError as error:
        raise InvalidParameter(
            f"option url or tokenFile: {error}", "See docs/spark-options.md."
        ) from error


def http_first(manager: Manager) -> BulkHttp:
    """A connection for the first question to an address that may be mistyped."""
    return http_of(manager._replace(retry_s=manager.first_s))


def http_now(manager: Manager) -> BulkHttp:
    """A connection for what cannot wait for `retryFor`: a command's first question, a clean-up."""
    return http_of(manager._replace(retry_s=min(manager.retry_s, RETRY_S)))


@contextmanager
def borrowed(manager: Manager) -> Iterator[BulkHttp]:
    """A connection that this process keeps for the next task."""
    idle = _idle.setdefault(manager, [])
    http = idle.pop() if idle else http_of(manager)
    try:
        yield http
    except BaseException:
        http.close()
        raise
    idle.append(http)
