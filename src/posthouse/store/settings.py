"""The settings of a store."""

from __future__ import annotations

from dataclasses import dataclass, replace

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
SEGMENT_SIZE_MIN = 1 * MIB
SEGMENTS_OF_DISK = 64
SET_ASIDE, REFUSE = "set-aside", "refuse"
RECORDS_MAX = 5 * MIB  # the largest message and what is said of others beside it


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """What may be set; the defaults are for a disk of some size and messages of some KiB."""

    store_id: bytes = bytes(16)
    """Given to a new store, which keeps it. Should be secret: record headers depend on it, so
    that nobody can send a body that looks like records of ours."""

    damage: str = SET_ASIDE
    """A start goes on without damaged records of messages, and reports them; or refuses."""

    segment_size: int = 64 * MIB
    """A segment is sealed once it is this long. On a small disk they are shorter: see `fitted`."""

    express_memory: int = 256 * MIB
    """Express messages above this go to their own segments."""

    disk_reserve: int = 2 * GIB
    disk_reserve_percent: int = 5
    """New messages are refused while less is free; the smaller of the two counts, so that neither
    a small disk nor a big one loses much of its use. Compaction works inside it: see `reserve`."""

    dead_ratio: float = 0.5
    """A sealed segment of which at least this part would not have to be copied may be compacted."""

    garbage_segments: int = 2
    """Dead bytes that are left alone: so many segments' worth, or an eighth of the log if that is
    more. Queues die from the front, so most segments are all dead before long without any copying;
    those are removed at once."""

    small_segments: int = 16
    """So many sealed segments under an eighth of the usual size are merged."""

    step_bytes: int = 1 * MIB
    """About how much one step of upkeep copies."""

    checkpoint_ratio: int = 4
    """A checkpoint is written when the log behind the last one is so many times its size."""

    checkpoint_inline: int = 1 * MIB
    """A checkpoint up to this size is written at once, a bigger one by a thread."""

    spare_segments: int = 2
    """Files of segments that are gone, kept to be written over: that spares the file system most of
    its work with new ones."""

    open_files: int = 256
    """Sealed segments kept open for reading."""

    def fitted(self, disk_size: int) -> StoreSettings:
        """For a disk of this size, which holds at least so many segments.

        What compaction copies of one segment has to find room while the disk is nearly full.
        """
        size = max(SEGMENT_SIZE_MIN, disk_size // SEGMENTS_OF_DISK)
        return self if size >= self.segment_size else replace(self, segment_size=size)

    def reserve(self, disk_size: int) -> int:
        """Bytes that new messages leave free: as set, but no less than compaction needs.

        Where it was set to 0, what one turn writes: so the log never ends in the middle of one,
        and a start finds room for its own records.
        """
        wanted = min(self.disk_reserve, disk_size * self.disk_reserve_percent // 100)
        return max(wanted, self.segment_size + RECORDS_MAX) if wanted else RECORDS_MAX

    def __post_init__(self) -> None:
        assert len(self.store_id) == 16
        assert 0 < self.segment_size <= GIB
        assert self.garbage_segments >= 0
        assert 0.25 <= self.dead_ratio <= 1.0  # below, what is written anew is soon due again
