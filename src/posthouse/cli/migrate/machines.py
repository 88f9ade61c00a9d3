"""The other machines of one `posthouse migrate` command, and the turn that each of them has.

A machine's turn ends with the first login that it refuses, since each one counts towards locking
the account there, and when it was away for longer than --patience. Its other queues are not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Final

from posthouse.cli.exit_codes import DONE, NOT_REACHABLE, REFUSED
from posthouse.cli.migrate.sources import Reach, SourceQueue
from posthouse.cli.output import complain
from posthouse.client.errors import ClientConnectionError
from posthouse.client.msmq import BINARY_PORT
from posthouse.client.remote.connect import LoginDenied
from posthouse.client.remote.consumer import browse
from posthouse.client.remote.login import RemoteLogin, RemotePlace
from posthouse.client.remote.management import RemoteManagement
from posthouse.client.remote.pull.patience import patiently
from posthouse.client.remote.pull.queue_pull import CHUNK
from posthouse.client.remote.pull.run import PullSource
from posthouse.client.remote.pull.source import (
    check_doors,
    check_guid,
    guid_in_name,
    guid_of_machine,
    source_name,
)
from posthouse.client.remote.pull.verify import count_unreadable
from posthouse.client.remote.reader import QueueReader, RemoteReader
from posthouse.client.remote.state import DENY_NONE, DENY_SHARE, PEEK_ACCESS, RECEIVE_ACCESS
from posthouse.model.errors import InvalidParameter, QueueError, RemoteProtocolError
from posthouse.model.guids import format_guid, parse_guid
from posthouse.model.names import DirectName

TIMEOUT_S: Final = 20.0
COUNT_S: Final = 5.0
ERRORS: Final = (QueueError, RemoteProtocolError, ClientConnectionError)


class Machines:
    """Readers of the machines of one command, and their GUIDs."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._login = reach.login()
        self._readers: dict[RemotePlace, RemoteReader] = {}
        self._managements: dict[RemotePlace, RemoteManagement] = {}
        self._uncounted: set[RemotePlace] = set()  # which do not answer management calls
        self._told: set[RemotePlace] = set()  # for which that was reported
        self._guids: dict[RemotePlace, bytes] = {}
        self._over: set[RemotePlace] = set()

    # -- turns

    def has_turn(self, queue: SourceQueue) -> bool:
        """Return if the machine of the queue is still asked."""
        return queue.place not in self._over

    def end_turn(self, queue: SourceQueue, error: Exception) -> bool:
        """Ask the machine no further, if the error is about all of it; return if it is."""
        if isinstance(error, LoginDenied | ClientConnectionError):
            self._over.add(queue.place)
        return not self.has_turn(queue)

    def is_away(self, queue: SourceQueue, error: ClientConnectionError) -> None:
        """Report an outage that is waited for."""
        complain(
            f"{queue.place.host}: {error.cause}. Waiting for it, up to {self._reach.patience:g} s "
            "(--patience)."
        )

    # -- questions

    def source(self, queue: SourceQueue, *, patient: bool = True) -> PullSource:
        """By what messages of the queue are known."""
        place, known = queue.place, self._guids.get(queue.place)
        if known is None:
            limit_s = self._reach.patience if patient else 0.0
            away = partial(self.is_away, queue)
            known = patiently(lambda: self._guid(queue), limit_s, away)
            self._guids[place] = known
        named = guid_in_name(queue.name)
        if named is not None and named != known:
            raise InvalidParameter(
                f"{queue.name} is a queue of another machine than {place.host}, whose GUID is "
                f"{format_guid(known)}"
            )
        found = PullSource(known, source_name(queue.name, queue.path), place.host.casefold())
        return found._replace(host=queue.machine.casefold()) if queue.machine else found

    def _guid(self, queue: SourceQueue) -> bytes:
        """The GUID of the machine, which both of its doors have to agree on."""
        host, reach = queue.place.host, self._reach
        port = reach.binary_port or queue.binary_port or BINARY_PORT
        if reach.guid is not None:
            given = parse_guid(reach.guid)
            check_guid(host, port, given, "Leave --guid out.")
            return given
        if (named := guid_in_name(queue.name)) is not None:
            return named
        if queue.guid:
            given = parse_guid(queue.guid)
            check_guid(host, port, given, "If it was set up again, scan it again.")
        else:
            given = guid_of_machine(host, port)
        check_doors(self._management(queue.place), given, port)
        return given

    def queue(self, queue: SourceQueue, *, takes: bool, shared: bool = False) -> QueueReader:
        """The queue, to be received from or looked at."""
        access = RECEIVE_ACCESS if takes else PEEK_ACCESS
        share = DENY_NONE if shared or not takes else DENY_SHARE
        name = queue.name
        if isinstance(name, DirectName):
            name = replace(name, port=None)  # which is that of another protocol
        return self._reader(queue.place).queue(str(name), name, access, share)

    def count(self, queue: SourceQueue) -> int | None:
        """Messages in the queue, by a management call; None: that is not answered to this user."""
        if queue.place in self._uncounted:
            return None
        try:
            return self._management(queue.place).count(queue.name)
        except LoginDenied:
            raise
        except (QueueError, RemoteProtocolError, OSError) as error:
            if queue.place not in self._told:
                complain(
                    f"{queue.place.host}: the messages there could not be counted, so those that "
                    f"remote read does not give are not seen: {getattr(error, 'cause', error)}"
                )
            self._told.add(queue.place)
            if not isinstance(error, QueueError):
                self._uncounted.add(queue.place)
            return None

    def open(self, queue: SourceQueue, reader: QueueReader) -> None:
        """Open the queue; its machine may be away for a while."""
        patiently(reader.opened, self._reach.patience, partial(self.is_away, queue))

    def unreadable(self, queue: SourceQueue, reader: QueueReader) -> int | None:
        """Messages that the machine counts in the queue and does not give; None: not known."""

        def readable() -> int:
            return sum(1 for _ in browse(reader, CHUNK, 0))

        return count_unreadable(lambda: self.count(queue), readable)

    def place(self, queue: SourceQueue) -> tuple[RemotePlace, RemoteLogin]:
        """Where the machine is asked by management calls, and as whom."""
        return queue.place, self._login

    def _management(self, place: RemotePlace) -> RemoteManagement:
        found = self._managements.get(place)
        if found is None:
            found = RemoteManagement(place, self._login, timeout_s=COUNT_S)
            self._managements[place] = found
        return found

    def _reader(self, place: RemotePlace) -> RemoteReader:
        reader = self._readers.get(place)
        if reader is None:
            reader = self._readers[place] = RemoteReader(
                place, self._login, timeout_s=TIMEOUT_S, reconnect_s=self._reach.patience
            )
        return reader

    def close(self) -> None:
        """Ends the connections."""
        for reader in self._readers.values():
            reader.close()
        for management in self._managements.values():
            management.close()


@contextmanager
def machines(reach: Reach) -> Iterator[Machines]:
    """The machines of one command."""
    found = Machines(reach)
    try:
        yield found
    finally:
        found.close()


def each_queue(
    found: Machines,
    queues: list[SourceQueue],
    work: Callable[[SourceQueue], bool],
    *,
    alone: bool,
) -> int:
    """Does the same with each queue, and returns the exit code; `work` returns if all was well.

    Where there are several, one that fails is reported and the others have their turn, as far as
    their machine still has one. `alone`: an error ends the command.
    """
    codes = {DONE}
    for queue in queues:
        if not found.has_turn(queue):
            continue
        try:
            codes.add(DONE if work(queue) else REFUSED)
        except ERRORS as error:
            if alone:
                raise
            label = queue.place.host if found.end_turn(queue, error) else queue.label
            complain(f"{label}: {error}")
            codes.add(NOT_REACHABLE if isinstance(error, ClientConnectionError) else REFUSED)
    return max(codes)
