"""Maintenance between turns: indexes of sealed segments, checkpoints, compaction.

Each step is small. Steps that wait for a sync ask to be called again.
"""

from __future__ import annotations

from errno import EDQUOT, ENOSPC

from posthouse.engine.ledger.damaged_records import damage_key
from posthouse.engine.ledger.records import TABLE_DAMAGE
from posthouse.engine.ledger.state import State
from posthouse.store.checkpoint import (
    TEMPORARY_SUFFIX,
    Checkpointer,
    CheckpointHead,
    checkpoint_names,
    take_picture,
)
from posthouse.store.compact import MARGIN, SMALL_PARTS, Compactor, Leaving
from posthouse.store.disk import Disk
from posthouse.store.errors import StoreDamaged
from posthouse.store.format import index_name
from posthouse.store.index import PART, Paused, SegmentIndex
from posthouse.store.memory import release_memory
from posthouse.store.open_files import SegmentFiles
from posthouse.store.positions import LogPosition
from posthouse.store.read import checked_record
from posthouse.store.recovery import OpenedLog, index_of
from posthouse.store.segment import Segment
from posthouse.store.settings import StoreSettings
from posthouse.store.writer import LogWriter

ROW_ESTIMATE = 80  # bytes of a waiting message in a checkpoint
_LOOK_PARTS = 64  # of a segment are written, or die, between two looks for something to compact
STEP_PAGES = 64  # of places that one step frees


class Upkeep:
    """The steps of `tidy`, in the order of their weight."""

    def __init__(
        self,
        disk: Disk,
        settings: StoreSettings,
        state: State,
        writer: LogWriter,
        files: SegmentFiles,
        found: OpenedLog,
    ) -> None:
        self.disk = disk
        self.settings = settings
        self.state = state
        self.ledger = found.ledger
        self.writer = writer
        self.files = files
        self.checkpoints = Checkpointer(disk)
        self.checkpoints.position = found.checkpoint_position
        self.checkpoint_wanted = False
        self.pictures = 0  # that were taken
        self.compactor = Compactor(
            state, found.ledger, settings, self._load_index, self._read_record, disk.free_space
        )
        self.damage: StoreDamaged | None = None  # met while compacting, which waits then
        self._leaving: list[Leaving] = []
        self._bytes_at_checkpoint = -behind_checkpoint(found)
        self._looked_at = -1
        self._asked = False  # an operator wants what can be given back, little as it may be
        self._checkpoint_bytes = self._size_of_checkpoints()
        self._shrinking = False  # the checkpoint under way is to be the only one
        self._bytes_at_step = -1  # what had been written when the last step was done
        self._index: IndexFile | None = None  # that is being written

    def step(self) -> bool:
        """One step; True: call again, after the next sync."""
        idle = not len(self.state.table) and self.writer.bytes_written == self._bytes_at_step
        if idle and not self.compactor.thorough:
            self._looked_at = -1
        self.compactor.thorough = idle or self._asked
        more = (
            self._write_index()
            or self.ledger.forget_some()
            or self._remove_files()
            or self._checkpoint()
            or self._compact()
            or (idle and self._shrink())
            or self.checkpoints.busy
            or any(leaving.position > self.writer.synced for leaving in self._leaving)
        )
        self._bytes_at_step = self.writer.bytes_written
        return more or (not idle and self._is_worth_idling())

    def tidy_thoroughly(self) -> None:
        """The next steps give back what space they can, also while messages wait."""
        self._asked = self.checkpoint_wanted = True
        self._looked_at = -1

    def _is_worth_idling(self) -> bool:
        """Nothing waits: if nothing is written until the next step either, it gives space back.

        Not at once, or a queue that is emptied again and again would cost a segment each time.
        """
        if len(self.state.table):
            return False
        on_disk = sum(segment.end for segment in self.ledger.segments.values())
        return (on_disk + self._checkpoint_bytes) * SMALL_PARTS >= self.settings.segment_size

    # -- indexes

    def _write_index(self) -> bool:
        """A part of an index: of a segment of very small messages it has tens of megabytes."""
        if self._index is None:
            if not self.writer.sealed:
                return False
            segment = self.writer.sealed.pop(0)
            self.files.adopt(segment)
            self.writer.give_back(segment)
            self._index = IndexFile(self.disk, segment)
        if self._save_index(self._index):
            self._index.segment.index = None
            self._index = None
        return True

    def _save_index(self, file: IndexFile) -> bool:
        """No sync: an index that a crash spoils is made again. Nor is a full disk a reason.

        True: it is there, or there will be none.
        """
        try:
            return file.step(PART)
        except OSError as error:
            if error.errno not in (ENOSPC, EDQUOT):
                raise
            file.give_up()
            return True

    def _load_index(self, segment: Segment) -> Paused[SegmentIndex]:
        if segment.index is not None:
            return built_index(segment)
        return (yield from index_of(self.disk, segment))

    # -- checkpoints

    def _checkpoint(self) -> bool:
        if self.checkpoints.busy:
            return self._finish_checkpoint()
        if not self._checkpoint_due():
            return False
        self._begin_checkpoint()
        return True

    def _finish_checkpoint(self) -> bool:
        if not self.checkpoints.step(self.writer.synced):
            return False
        if self._shrinking:
            for name in checkpoint_names(self.disk.names())[1:]:
                self.disk.unlink(name)
        else:
            self._checkpoint_bytes = self._size_of_checkpoints()
        if self.is_large:
            release_memory()  # or that of the picture would stay with the process
        return True

    def _size_of_checkpoints(self) -> int:
        return sum(map(self.disk.size, checkpoint_names(self.disk.names())))

    def _shrink(self) -> bool:
        """Checkpoints of fuller days go: the log is so short now that it can stand in for them."""
        pending = self.checkpoints.busy or self._leaving
        if pending or self._checkpoint_bytes * SMALL_PARTS < self.settings.segment_size:
            return False
        self._begin_checkpoint()
        self._shrinking, self._checkpoint_bytes = True, 0  # tried once, the disk may be full
        return True

    def _checkpoint_due(self) -> bool:
        size = self.settings.checkpoint_ratio * ROW_ESTIMATE * len(self.state.table)
        behind = self.writer.bytes_written - self._bytes_at_checkpoint
        enough = behind + self.compactor.blocked_bytes >= max(self.settings.segment_size, size)
        due = enough or self.checkpoint_wanted or self._is_worth_a_checkpoint()
        return due and self._checkpoint_fits()

    def _checkpoint_fits(self) -> bool:
        """One that does not fit would take what the log needs meanwhile, and come to nothing."""
        free, _ = self.disk.free_space()
        return len(self.state.table) * ROW_ESTIMATE + MARGIN <= free

    def _is_worth_a_checkpoint(self) -> bool:
        """While nothing waits it is small, so it may come early."""
        blocked = self.compactor.blocked_bytes * SMALL_PARTS >= self.settings.segment_size
        return blocked and self.compactor.thorough

    def _begin_checkpoint(self) -> None:
        active = self.writer.active
        assert active is not None
        head = CheckpointHead(active.number, active.end, self.writer.appended, self.writer.store_id)
        picture = take_picture(self.state, self.ledger, head)
        self.checkpoints.begin(picture, inline=not self.is_large)
        self.pictures += 1
        self._bytes_at_checkpoint = self.writer.bytes_written
        self.checkpoint_wanted = self._shrinking = False
        self.compactor.blocked_bytes = 0
        self._looked_at = -1

    @property
    def is_large(self) -> bool:
        """Whether a checkpoint takes long enough to be written by a thread."""
        rows = len(self.state.table) + len(self.state.definitions)
        return rows * ROW_ESTIMATE > self.settings.checkpoint_inline

    def last_checkpoint(self) -> bool:
        """The one of a clean stop; False when the disk is full.

        Always a new one: express messages come, change and go without moving the position.
        """
        self.checkpoints.step(self.writer.synced, wait=True)
        self._begin_checkpoint()
        return self.checkpoints.step(self.writer.synced, wait=True)

    # -- compaction

    def _compact(self) -> bool:
        if self.damage is not None and not self._is_listed(self.damage):
            return False
        self.damage = None
        try:
            return self._compact_more()
        except StoreDamaged as error:
            self.damage = error
            self.compactor.victim = None  # chosen again from its beginning
            self._looked_at = -1
            return False

    def _is_listed(self, damage: StoreDamaged) -> bool:
        """The log has it: its segment is left alone until an operator decides."""
        if damage.place is None:
            return False
        return (TABLE_DAMAGE, damage_key(*damage.place[:2])) in self.state.definitions

    def _compact_more(self) -> bool:
        compactor = self.compactor
        if compactor.victim is None:
            return self._choose()
        victim = compactor.victim
        if victim.done:
            position = self.writer.write(compactor.release())
            self._leaving.append(compactor.leave(position))
            self._looked_at = -1
        elif records := compactor.step():
            self.writer.write(records)
        return True

    def _choose(self) -> bool:
        """Looks for a segment, but not after every small group."""
        now = self.writer.bytes_written + self.ledger.dead_bytes
        if self._looked_at >= 0 and (now - self._looked_at) * _LOOK_PARTS < (
            self.settings.segment_size
        ):
            return False
        self._looked_at = now
        if self.compactor.choose(self.checkpoints.position):
            return True
        if self.compactor.lacks_room:
            self._looked_at = -1  # others may free some
        active = self.writer.active
        assert active is not None
        self.writer.seal_early = self.compactor.is_worth_sealing(active)
        self._asked = self._asked and self.writer.seal_early
        return False

    def _read_record(self, place: LogPosition) -> bytes:
        segment = self.ledger.segments[place.segment]
        return checked_record(self.files.open(segment), segment.name, place)

    # -- files of segments that are gone

    def leaving_segment(self, number: int) -> Segment | None:
        """A segment whose file is still there."""
        for leaving in self._leaving:
            if leaving.segment.number == number and not leaving.removed:
                return leaving.segment
        return None

    def _remove_files(self) -> bool:
        for leaving in self._leaving:
            if leaving.position <= self.writer.synced and not leaving.segment.pins:
                self._remove(leaving)
                return True
        return False

    def _remove(self, leaving: Leaving) -> None:
        """The files at once, then the places of the messages bit by bit."""
        segment = leaving.segment
        if not leaving.removed:
            leaving.removed = True
            self.files.close_one(segment)
            if self._is_worth_keeping(segment):
                self.writer.keep_spare(segment)
            else:
                self.disk.unlink(segment.name)
            if self.disk.exists(index_name(segment.number)):
                self.disk.unlink(index_name(segment.number))
            self.disk.sync_directory()
        if self.ledger.positions.free_segment(segment.number, STEP_PAGES):
            self._leaving.remove(leaving)
            self._checkpoint_bytes = self._size_of_checkpoints()  # the next ones lack its places

    def _is_worth_keeping(self, segment: Segment) -> bool:
        usual = self.settings.segment_size
        has_room = len(self.writer.spares) < self.settings.spare_segments
        return has_room and usual <= 2 * segment.end <= 4 * usual


class IndexFile:
    """The index of a sealed segment on its way to the disk: another name until it is whole."""

    def __init__(self, disk: Disk, segment: Segment) -> None:
        self.segment = segment
        self._disk = disk
        self._name = index_name(segment.number)
        self._temporary = self._name + TEMPORARY_SUFFIX
        self._summing = built_index(segment).parts(segment.generation)
        self._left: list[memoryview] = []
        self._written = 0
        if disk.exists(self._temporary):
            disk.unlink(self._temporary)

    def step(self, size: int) -> bool:
        """Writes up to this many bytes; True: that was the last of it.

        At first a part is only added to the checksum, which the file begins with.
        """
        if not self._left and not self._is_summed():
            return False
        parts = self._taken(size)
        file = self._disk.open(self._temporary, create=not self._written)
        try:
            file.write(parts, self._written)
        finally:
            file.close()
        self._written += sum(map(len, parts))
        if not self._left:
            self._disk.rename(self._temporary, self._name)
        return not self._left

    def _is_summed(self) -> bool:
        try:
            next(self._summing)
        except StopIteration as end:
            self._left = end.value
            return True
        return False

    def _taken(self, room: int) -> list[bytes]:
        parts: list[bytes] = []
        while self._left and room > 0:
            part, rest = self._left[0][:room], self._left[0][room:]
            parts.append(bytes(part))
            room -= len(part)
            self._left[:1] = [rest] if len(rest) else []
        return parts

    def give_up(self) -> None:
        """There is no room for it."""
        if self._disk.exists(self._temporary):
            self._disk.unlink(self._temporary)


def built_index(segment: Segment) -> SegmentIndex:
    """The index of a segment that was written by this process."""
    assert segment.index is not None
    return SegmentIndex(segment.number, segment.first_sequence, segment.end, segment.index)


def behind_checkpoint(found: OpenedLog) -> int:
    """Bytes of log that had to be replayed, about."""
    behind = [
        s.end for s in found.ledger.segments.values() if s.last_sequence > found.checkpoint_position
    ]
    return sum(behind)
