"""The print record: what print services keep in the 152 bytes of a job (qms-facts 2.8).

QMS never looks at them. NWConvertPrintStructToQueueStruct and NWConvertQueueStructToPrintStruct
run at the client.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from posthouse.wire.layout import Flags, bits
from posthouse.wire.ncp_forms import BE16, U8, Fixed, FixedText, Form
from posthouse.wire.ncp_jobs import RECORD_SIZE


class PrintFlags(Flags):
    """How a job is printed."""

    keep_on = bits(2)
    suppress_form_feed = bits(3)
    notify_user = bits(4)
    delete_file = bits(5)
    text_mode = bits(6)  # tabs are expanded
    print_banner = bits(7)


class PrintRecord(NamedTuple):
    """NWPrintRecord: a print job's own fields."""

    version: int = 0
    tab_size: int = 8
    copies: int = 1
    flags: int = 0x00C0  # banner and text, PrintFlags
    lines: int = 66
    columns: int = 80
    form_name: str = ""
    reserved: bytes = bytes(6)
    banner_name: str = ""
    banner_file: str = ""
    header_file: str = ""
    path: str = ""


_RECORD: Final = Form(
    PrintRecord,
    *(U8, U8, BE16, BE16, BE16, BE16),
    *(FixedText(16), Fixed(6)),
    *(FixedText(13), FixedText(13), FixedText(14), FixedText(80)),
)


def pack_print_record(record: PrintRecord) -> bytes:
    """NWConvertPrintStructToQueueStruct: the 152 bytes of queueRecord."""
    packed = _RECORD.write(record)
    assert len(packed) == RECORD_SIZE
    return packed


def unpack_print_record(queue_record: bytes) -> PrintRecord:
    """NWConvertQueueStructToPrintStruct; `Truncated` where it is shorter than 152 bytes."""
    return _RECORD.read(queue_record)
