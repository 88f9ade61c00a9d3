"""The print record in a job's queueRecord (qms-facts 2.8). Queues never look into it."""

import struct
from typing import Final, NamedTuple

from posthouse.model.completion_codes import BAD_LENGTH
from posthouse.model.errors import QmsError
from posthouse.model.qms import CLIENT_RECORD_SIZE, NWQueueJobStruct

PF_BANNER: Final = 0x0080
PF_TEXT: Final = 0x0040  # tabs are expanded
PF_DELETE_FILE: Final = 0x0020
PF_NOTIFY: Final = 0x0010
PF_NO_FORM_FEED: Final = 0x0008
PF_KEEP_ON: Final = 0x0004

_RECORD = struct.Struct(">BBHHHH16s6x13s13s14s80s")
assert _RECORD.size == CLIENT_RECORD_SIZE


class PrintJobStruct(NamedTuple):
    """What a print server needs of a job."""

    copies: int = 1
    print_flags: int = PF_TEXT
    tab_size: int = 8
    lines_per_page: int = 66
    characters_per_line: int = 80
    form_name: bytes = b""
    banner_name: bytes = b""  # usually the user
    banner_file: bytes = b""
    header_file: bytes = b""
    directory_path: bytes = b""
    form_number: int = 0  # is the job type
    description: bytes = b""
    version: int = 0


def convert_print_struct_to_queue_struct(
    job: PrintJobStruct, queue_job: NWQueueJobStruct | None = None
) -> NWQueueJobStruct:
    """NWConvertPrintStructToQueueStruct: done by the client, before the job is submitted."""
    try:
        record = _RECORD.pack(
            job.version,
            job.tab_size,
            job.copies,
            job.print_flags,
            job.lines_per_page,
            job.characters_per_line,
            job.form_name,
            job.banner_name,
            job.banner_file,
            job.header_file,
            job.directory_path,
        )
    except struct.error as error:
        raise QmsError(BAD_LENGTH, f"a number of the print job is out of range: {error}") from None
    return (queue_job or NWQueueJobStruct())._replace(
        queue_record=record, job_type=job.form_number, job_description=job.description
    )


def convert_queue_struct_to_print_struct(queue_job: NWQueueJobStruct) -> PrintJobStruct:
    """NWConvertQueueStructToPrintStruct: done by the client, with a job it has read."""
    record = queue_job.queue_record.ljust(CLIENT_RECORD_SIZE, b"\0")
    version, tab_size, copies, flags, lines, columns, *texts = _RECORD.unpack(
        record[:CLIENT_RECORD_SIZE]
    )
    form, banner, banner_file, header, directory = (t.split(b"\0", 1)[0] for t in texts)
    return PrintJobStruct(
        copies,
        flags,
        tab_size,
        lines,
        columns,
        form,
        banner,
        banner_file,
        header,
        directory,
        queue_job.job_type,
        queue_job.job_description.split(b"\0", 1)[0],
        version,
    )
