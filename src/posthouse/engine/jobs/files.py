"""Job files: the data of jobs, as messages of a hidden queue (qms-facts 1.5).

Each write is one durable message; pages of small records list which bytes it holds. Writes may
overlap and leave holes. A message that is hidden completely ends with the write that hid it.
So small writes after each other are gathered: the sixteenth brings the fifteen before it along.
"""

from __future__ import annotations

import struct
from itertools import count as counting

from posthouse.engine.jobs.file_content import CHUNK_MAX, GATHERED, JobFile
from posthouse.engine.jobs.job import FileHandle, Job, Station
from posthouse.engine.ledger.effects import Unreadable
from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import PacketReads
from posthouse.engine.ledger.records import NEVER, PURGED, RECEIVED, TABLE_JOB, Change, Row
from posthouse.engine.messages.admission import Admission
from posthouse.engine.queues.queue import JOB_FILES
from posthouse.model.completion_codes import (
    INVALID_FILE_HANDLE,
    NO_READ_PRIVILEGE,
    NO_WRITE_PRIVILEGE,
    OUT_OF_DISK_SPACE,
    Q_IO_FAILURE,
)
from posthouse.model.errors import QmsError, QueueError
from posthouse.wire.packet.batch import Batch

READ_MAX = 4 << 20
SIZE_CLASSES = (1, 1 << 10), (1 << 10, 16 << 10)  # bytes, from and below; larger ones stay
PIECES_SPARE = 1024  # messages of a file beside one for each 8 KiB of the largest
PIECE = 8 << 10
PAGE_KEY = struct.Struct(">cQI")
_CHUNK = struct.Struct("<QQI")  # number of the message, offset, length


class JobFiles:
    """All job files and the handles to them."""

    def __init__(self, core: Ledger, admission: Admission, reading: PacketReads) -> None:
        self.core = core
        self._admission = admission
        self._reading = reading
        self._handles = counting(1)

    # -- handles

    def open(self, station: Station, job: Job, *, readable: bool) -> int:
        """A new handle, good on this connection only. Submitters write, servers read as well."""
        number = next(self._handles) & 0x7FFFFFFF
        station.handles[number] = FileHandle(number, station, job, readable)
        station.handles_to.setdefault(job, {})[number] = None
        return number

    def handle(self, station: Station, number: int) -> FileHandle:
        """The open file of a handle."""
        handle = station.handles.get(number)
        if handle is None:
            raise QmsError(INVALID_FILE_HANDLE, "no open job file has this handle here")
        return handle

    def handle_of(self, station: Station, job: Job) -> int:
        """The handle that a station has to a job; 0: none."""
        return next(iter(station.handles_to.get(job, ())), 0)

    def close(self, station: Station, number: int) -> None:
        """NWCloseFile (0x42): closes a handle."""
        job = self.handle(station, number).job
        del station.handles[number]
        numbers = station.handles_to[job]
        del numbers[number]
        if not numbers:
            del station.handles_to[job]

    def close_all(self, station: Station | None, job: Job) -> None:
        """A station no longer uses the file of this job."""
        if station is not None:
            for number in station.handles_to.pop(job, ()):
                del station.handles[number]

    # -- data

    def write(self, handle: FileHandle, offset: int, data: bytes) -> None:
        """NWWriteFile (0x49): durable when it is answered."""
        file, limit = handle.job.file, self.core.settings.qms.file_max
        if offset < 0 or offset + len(data) > limit or file.stored + len(data) > 2 * limit:
            raise QmsError(OUT_OF_DISK_SPACE, f"a job file has at most {limit} bytes")
        if len(file.chunks) >= PIECES_SPARE + limit // PIECE:
            raise QmsError(OUT_OF_DISK_SPACE, "the job file has too many pieces")
        self.check_room(len(data), OUT_OF_DISK_SPACE)
        change = Change()
        self.append(handle.job, *self._gathered(file, offset, data), change)
        self.core.commit(change)

    def _gathered(self, file: JobFile, offset: int, data: bytes) -> tuple[int, bytes]:
        """A write, with what was written just before it where that came in many small pieces."""
        for low, high in SIZE_CLASSES:
            numbers = file.run_before(offset, low, high) if low <= len(data) < high else []
            if len(numbers) == GATHERED - 1 and (before := self._packets(numbers)) is not None:
                offset, data = offset - len(before), before + data
        return offset, data

    def _packets(self, numbers: list[int]) -> bytes | None:
        """The data of messages; None where one of them is damaged, and better left alone."""
        core = self.core
        if any(core.state.table.get(number) is None for number in numbers):
            return None
        try:
            self._reading.fetch_many(numbers)
        except Unreadable:
            return None
        return b"".join(core.effects.packet(number) or b"" for number in numbers)

    def check_room(self, size: int, completion: int) -> None:
        """Refuses while the disk is nearly full, and over the quota of the machine."""
        core = self.core
        try:
            self._admission.check_quotas(core.queues[JOB_FILES], size, None)
        except QueueError as error:
            raise QmsError(completion, error.cause, error.remedy) from None

    def append(self, job: Job, offset: int, data: bytes, change: Change) -> None:
        """Write to a job file, as part of the caller's change."""
        for at in range(0, len(data), CHUNK_MAX):
            self._append(job, offset + at, data[at : at + CHUNK_MAX], change)

    def _append(self, job: Job, offset: int, data: bytes, change: Change) -> None:
        core, file = self.core, job.file
        row = Row(
            core.lookup_ids.next(), JOB_FILES, NEVER, core.utc, len(data), 0, 0, 0, 0, 0, 3, 0, 0
        )
        (number,) = core.arrive(row, Batch.of_data(data), change=change)
        page = file.open_page()
        hidden = file.add(number, offset, len(data), page)
        touched = {page}
        for one in hidden:
            touched.add(file.forget(one))
            self._end(one, PURGED, change)
        for page in sorted(touched):
            self._store_page(job, page, change)

    def _end(self, number: int, reason: int, change: Change) -> None:
        row = self.core.state.table.get(number)
        if row is not None:
            self.core.end(number, row, reason, change)

    def _store_page(self, job: Job, page: int, change: Change) -> None:
        chunks, numbers = job.file.chunks, job.file.pages.get(page, [])
        value = b"".join(_CHUNK.pack(n, chunks[n].offset, chunks[n].length) for n in numbers)
        key = PAGE_KEY.pack(b"f", job.serial, page)
        self.core.define(TABLE_JOB, key, value or None, change)

    def remove(self, job: Job, change: Change, *, serviced: bool) -> None:
        """The file ends with its job."""
        for number in job.file.chunks:
            self._end(number, RECEIVED if serviced else PURGED, change)
        for page in job.file.pages:
            self.core.define(TABLE_JOB, PAGE_KEY.pack(b"f", job.serial, page), None, change)

    def load(self, file: JobFile, pages: dict[int, bytes]) -> None:
        """What the store kept. Messages are in the order of their numbers."""
        chunks = [
            (number, offset, length, page)
            for page, value in pages.items()
            for number, offset, length in _CHUNK.iter_unpack(value)
        ]
        for number, offset, length, page in sorted(chunks):
            file.add(number, offset, length, page)

    def read(self, job: Job, offset: int, count: int) -> bytes:
        """NWReadFile (0x48): up to this many bytes; none at the end. Holes are zeros."""
        end = min(offset + min(count, READ_MAX), job.file.size)
        if offset < 0 or end <= offset:
            return b""
        data, extents = bytearray(end - offset), job.file.within(offset, end)
        if any(self.core.state.table.get(extent.number) is None for extent in extents):
            raise QmsError(Q_IO_FAILURE, f"data of job {job.entry.number} was given up as damaged")
        try:
            self._reading.fetch_many(list(dict.fromkeys(e.number for e in extents)))
        except Unreadable as damage:
            raise QmsError(Q_IO_FAILURE, f"data of job {job.entry.number}: {damage}") from damage
        for extent in extents:
            start, stop = max(extent.start, offset), min(extent.end, end)
            at = extent.offset + start - extent.start
            stored = self.core.effects.packets[extent.number]
            data[start - offset : stop - offset] = stored[at : at + stop - start]
        return bytes(data)


def check_readable(handle: FileHandle) -> None:
    """Submitters write the data; servers read it."""
    if not handle.readable:
        raise QmsError(NO_READ_PRIVILEGE, "this handle is for writing the job's data")


def check_writable(handle: FileHandle, station: Station) -> None:
    """A submitter writes until the job is started, a server while it services the job."""
    job = handle.job
    if station not in (job.submitter, job.server):
        raise QmsError(NO_WRITE_PRIVILEGE, "this handle is for reading the job's data")
