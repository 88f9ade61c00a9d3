"""`[store]`: settings of the log on disk."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec.structs import replace

from posthouse.model.settings_kinds import (
    GIB,
    KIB,
    MIB,
    SIZE_MAX,
    Section,
    meaning,
    size,
    within,
)

SEGMENT_SIZE_MIN = 1 * MIB
SEGMENTS_OF_DISK = 64
SET_ASIDE: Final = "set-aside"
REFUSE: Final = "refuse"
RECORDS_MAX = 5 * MIB  # the largest message and what is said of others beside it


class StoreSettings(Section, frozen=True):
    """The log on disk."""

    damage: Annotated[
        Literal["set-aside", "refuse"],
        meaning(
            "What a start does with a damaged record of a message: sets it aside, or refuses "
            "to start. See production.md."
        ),
    ] = SET_ASIDE
    # On a small disk they are shorter: see `fitted`.
    segment_size: Annotated[
        int,
        size(
            MIB,
            GIB,
            "Size at which a segment of the log is sealed. A disk holds at least 64 segments:"
            " below 4 GiB they are shorter.",
        ),
    ] = 64 * MIB
    express_memory: Annotated[
        int,
        size(
            0,
            SIZE_MAX,
            "Memory for express messages. More of them go to files, which are never synced.",
        ),
    ] = 256 * MIB
    # The smaller of the two counts, so that neither a small disk nor a big one loses much of its
    # use. Compaction works inside it: see `reserve`.
    disk_reserve: Annotated[
        int,
        size(
            0,
            SIZE_MAX,
            "Free space on the disk below which new messages are refused. The smaller of this"
            " and `disk_reserve_percent` counts, but at least what compaction needs: the size"
            " of a segment and 5 MiB. 0: 5 MiB, so that the log itself can continue.",
        ),
    ] = 2 * GIB
    disk_reserve_percent: Annotated[
        int, within(0, 50, "The reserve in percent of the whole disk.")
    ] = 5
    # Not less: what is written again would soon be due again.
    dead_ratio: Annotated[
        float, within(0.25, 1.0, "Part of a segment that must be dead before it may be compacted.")
    ] = 0.5
    # Queues die from the front, so most segments are all dead before long without any copying;
    # those are removed at once.
    garbage_segments: Annotated[
        int,
        within(
            0,
            1000,
            "Dead bytes that are not compacted, in segments. An eighth of the log, if that is"
            " more.",
        ),
    ] = 2
    # That spares the file system most of its work with new ones.
    spare_segments: Annotated[
        int, within(0, 100, "Number of files of dead segments that are kept to be overwritten.")
    ] = 2
    # Those under an eighth of the usual size.
    small_segments: Annotated[
        int, within(2, 1000, "Number of small segments that are merged together.")
    ] = 16
    step_bytes: Annotated[
        int,
        size(64 * KIB, 64 * MIB, "Approximate number of bytes that one step of compaction copies."),
    ] = MIB
    checkpoint_ratio: Annotated[
        int,
        within(
            1,
            100,
            "A checkpoint is written when the log after the last one is this many times its size.",
        ),
    ] = 4
    checkpoint_inline: Annotated[
        int, size(0, GIB, "Size above which a checkpoint is written by a separate thread.")
    ] = MIB
    open_files: Annotated[int, within(16, 100_000, "Number of segments kept open for reading.")] = (
        256
    )
    # Not in the file: given to a new store, which keeps it. Should be secret: record headers depend
    # on it, so that a sender cannot make a body that looks like records of ours.
    store_id: bytes = bytes(16)

    def fitted(self, disk_size: int) -> StoreSettings:
        """For a disk of this size, which holds at least this many segments.

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
