"""A bounded cache of open files of sealed segments."""

from __future__ import annotations

from posthouse.store.disk import Disk, File
from posthouse.store.segment import Segment
from posthouse.store.writer import LogWriter


class SegmentFiles:
    """Opens the files of segments on demand and closes the ones opened longest ago."""

    def __init__(self, disk: Disk, writer: LogWriter, limit: int) -> None:
        self.disk = disk
        self.writer = writer
        self.limit = limit
        self._opened: dict[int, Segment] = {}

    def open(self, segment: Segment) -> File:
        """The file of a segment."""
        if segment.file is None:
            segment.file = self.disk.open(segment.name)
            self.adopt(segment)
        return segment.file

    def _close_oldest(self, newest: Segment) -> None:
        for segment in self._opened.values():
            if segment is not newest and not segment.pins and not self.writer.needs(segment):
                self.close_one(segment)
                return

    def adopt(self, segment: Segment) -> None:
        """The file of a segment counts from now on."""
        self._opened[segment.number] = segment
        if len(self._opened) > self.limit:
            self._close_oldest(segment)

    def close_one(self, segment: Segment) -> None:
        """Gives the file of a segment back."""
        self._opened.pop(segment.number, None)
        if segment.file is not None:
            segment.file.close()
            segment.file = None

    def close(self) -> None:
        """Gives all files back, the active segment's too."""
        for segment in list(self._opened.values()):
            self.close_one(segment)
        if self.writer.active is not None:
            self.close_one(self.writer.active)
