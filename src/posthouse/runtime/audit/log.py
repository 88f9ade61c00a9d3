"""The audit log on disk: lines of JSON in files of their own, each synced before its answer.

Files and not the store: entries are never rewritten by a compaction, a home that is put back from
a copy does not take them back, and any tool reads them. One thread writes what has gathered and
syncs once for all of it. Acts that were done have a file; attempts, which anyone with a token can
make, have another one, and refused sign-ins, which strangers can make, a third: no number of either
pushes out an act, nor do strangers push out an attempt.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from heapq import merge
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UnsetType

from posthouse.api.audit import SIGN_IN, AuditEntryJson, AuditPageJson, AuditParams
from posthouse.engine.accounts.logins import network_of
from posthouse.model.json_for_terminals import json_for_terminals
from posthouse.protocols.handlers.audit_trail import Act
from posthouse.runtime.audit.file import AuditFile, Tell
from posthouse.runtime.audit.repeats import Repeats
from posthouse.runtime.audit.settings import AuditSettings

SCANNED_MAX: Final = 20_000  # entries that one page looks at
ATTEMPT_FILES: Final = 1  # old files of attempts that are kept
ALIKE_MAX: Final = 20  # refusals of a user, an act and a reason in a minute; more are counted
USER_REFUSALS_MAX: Final = 200  # of a user in a minute
REFUSALS_MAX: Final = 2_000  # of all users in a minute
SIGN_INS_ALIKE_MAX: Final = 5  # refused sign-ins of an address in a minute; more are counted
SIGN_INS_MAX: Final = 30  # of all addresses in a minute
SIGN_IN_NETWORKS_MAX: Final = 20  # after these, how many of them are counted each by itself
MINUTE_S: Final = 60
ATTEMPTS: Final = ("begun", "refused")  # outcomes of which nothing was done so far
_encode: Final = msgspec.json.Encoder().encode

Then = Callable[[OSError | None], None]


class _Line(NamedTuple):
    """An entry that waits for the disk, and what to call then."""

    file: AuditFile
    data: bytes
    then: Then


class AuditLog:
    """Writes acts of operators, and finds them again.

    `soon` calls something on the loop, from any thread; `tell` is for the log of events.
    """

    def __init__(
        self,
        path: Path,
        settings: AuditSettings,
        soon: Callable[[Callable[[], None]], object],
        tell: Tell = lambda event, details: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.settings = settings
        self._soon = soon
        self._now = now
        self._lock = threading.Lock()
        self._waiting: deque[_Line] = deque()
        self._writing = False
        self._refusals = Repeats(ALIKE_MAX, USER_REFUSALS_MAX, REFUSALS_MAX)
        self._strangers = Repeats(
            SIGN_INS_ALIKE_MAX, SIGN_INS_ALIKE_MAX, SIGN_INS_MAX, SIGN_IN_NETWORKS_MAX
        )
        self._thread = ThreadPoolExecutor(1, "audit")
        attempts = path.with_name(f"{path.stem}-attempts{path.suffix}")
        sign_ins = path.with_name(f"{path.stem}-sign-ins{path.suffix}")
        self._acts = AuditFile(path, settings, settings.files_kept, tell, now)
        self._attempts = AuditFile(attempts, settings, ATTEMPT_FILES, tell, now)
        self._sign_ins = AuditFile(sign_ins, settings, ATTEMPT_FILES, tell, now)
        self._files = (self._acts, self._attempts, self._sign_ins)
        self._seq = max(file.last_seq for file in self._files)

    @property
    def required(self) -> bool:
        """Whether an act is refused when it cannot be written down first."""
        return self.settings.required

    @property
    def unwritten(self) -> int:
        """Entries that are not on disk though they should be."""
        return sum(file.unwritten for file in self._files)

    # -- writing

    def begin(self, act: Act, then: Callable[[Exception | None], None]) -> None:
        """Writes that an act begins; `then` gets None when that is durable, else why not."""
        self._add(act, "begun", "", {}, then)

    def end(
        self, act: Act, outcome: str, error: str, result: dict[str, Any], then: Callable[[], None]
    ) -> None:
        """Writes what came of it; `then` is called when that is durable or cannot be.

        Of refusals that are alike, those after the first of a minute are only counted.
        """
        minute = self._minute()
        self._write_counted(minute)
        kind = act.user, act.act, error.partition(":")[0]
        if outcome == "refused" and self._refusals.is_counted(kind, act, error, minute):
            then()
            return
        self._add(act, outcome, error, result, lambda failure: then())

    def sign_in_refused(self, door: str, user: str, address: str, cause: str) -> None:
        """Writes that someone was not let in; of many in a minute only the first ones.

        They count by address alone: strangers call themselves what they like.
        """
        minute = self._minute()
        self._write_counted(minute)
        act = Act(user, "", "", address, SIGN_IN, {"door": door})
        kind = (network_of(address),)
        if not self._strangers.is_counted(kind, act._replace(user=""), cause, minute):
            self._add(act, "refused", cause, {}, _ignored, self._sign_ins)

    def settle(self) -> None:
        """Writes how many refusals were only counted so far."""
        self._write_counted(self._minute() + 1)

    def _minute(self) -> int:
        return int(self._now().timestamp()) // MINUTE_S

    def _write_counted(self, before: int) -> None:
        """Writes what was counted in the minutes before one."""
        for repeats, file in (self._refusals, self._attempts), (self._strangers, self._sign_ins):
            for one, more in repeats.ended(before, self._minute()):
                self._add(one.act, "refused", one.error, {"more": more}, _ignored, file)

    def _add(
        self,
        act: Act,
        outcome: str,
        error: str,
        result: dict[str, Any],
        then: Then,
        file: AuditFile | None = None,
    ) -> None:
        self._seq += 1
        time = self._now().strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        entry = AuditEntryJson(self._seq, time, *act, outcome=outcome, error=error, result=result)
        file = file or (self._attempts if outcome in ATTEMPTS else self._acts)
        with self._lock:
            self._waiting.append(_Line(file, _encoded(entry), then))
            if self._writing:
                return
            self._writing = True
        with suppress(RuntimeError):  # after the end; the log of events has what comes so late
            self._thread.submit(self._drain)

    def _drain(self) -> None:
        """In the thread: all that has gathered, one sync for each file, then the answers."""
        while True:
            with self._lock:
                lines, self._waiting = list(self._waiting), deque()
                if not lines:
                    self._writing = False
                    return
            failures = {
                id(file): file.written(own)
                for file in self._files
                if (own := [line.data for line in lines if line.file is file])
            }
            with suppress(RuntimeError):  # the loop has ended: no one waits for an answer
                self._soon(partial(_answer, lines, failures))

    def close(self) -> None:
        """Waits until all that was handed in is written."""
        self.settle()
        self._thread.shutdown(wait=True)
        for file in self._files:
            file.close_file()

    # -- reading, in a thread

    def page(self, params: AuditParams, matches: Callable[[AuditEntryJson], bool]) -> AuditPageJson:
        """Entries that match: the newest first, or from a number on the oldest first."""
        with suppress(RuntimeError):  # after the end nothing is left to write
            self._thread.submit(lambda: None).result()  # what was handed in before is on disk
        found: list[AuditEntryJson] = []
        for scanned, entry in enumerate(self._entries(params), 1):
            if matches(entry):
                found.append(entry)
            if len(found) >= params.limit or scanned >= SCANNED_MAX:
                return AuditPageJson(found, entry.seq, self.unwritten)
        return AuditPageJson(found, None, self.unwritten)

    def _entries(self, params: AuditParams) -> Iterator[AuditEntryJson]:
        """Of all files, in the order of their numbers."""
        if not isinstance(after := params.after, UnsetType):
            return merge(*(file.forward(after) for file in self._files), key=lambda one: one.seq)
        before = None if isinstance(params.before, UnsetType) else params.before
        return merge(*(file.backward(before) for file in self._files), key=lambda one: -one.seq)


def _ignored(failure: OSError | None) -> None:
    """No one waits for the entry."""


def _answer(lines: list[_Line], failures: dict[int, OSError | None]) -> None:
    for line in lines:
        line.then(failures[id(line.file)])


def _encoded(entry: AuditEntryJson) -> bytes:
    """Return a line; what no UTF-8 has, and what steers a terminal, is escaped.

    Callers may have sent it, strangers too.
    """
    try:
        line = _encode(entry)
    except UnicodeEncodeError:
        values = {name: _escaped(getattr(entry, name)) for name in entry.__struct_fields__}
        line = _encode(AuditEntryJson(**values))
    return json_for_terminals(line.decode()).encode() + b"\n"


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    if isinstance(value, dict):
        return {_escaped(name): _escaped(item) for name, item in value.items()}
    return value
