"""Stubs of every method, packed by hand from the IDL ([MS-MQRR] appendix A) in both syntaxes.

Each with its opnum, whether it is NDR64, and the value it stands for.
"""

from __future__ import annotations

from typing import Any

from posthouse.protocols.queue_format import ObjectId
from posthouse.protocols.remote_read.stubs import (
    CancelReceive,
    CloseCursor,
    ClosedQueue,
    CloseQueue,
    CreateCursor,
    CreatedCursor,
    EndReceive,
    EnlistRemoteTransaction,
    GetServerPort,
    MoveMessage,
    OpenedQueueForMove,
    OpenQueueRequest,
    OpenQueueResponse,
    PurgeQueue,
    QueueFormat,
    Received,
    Section,
    ServerPort,
    SetUserAcknowledgementClass,
    StartReceive,
    StartTransactionalReceive,
    Status,
    not_received,
)

HANDLE = bytes.fromhex("00000000 f0f1f2f3 f4f5 f6f7 f8f9fafbfcfdfeff")
HANDLE_HEX = HANDLE.hex()
GUID = bytes.fromhex("33221100 5544 7766 8899aabbccddeeff")
GUID_HEX = GUID.hex()  # 00112233-4455-6677-8899-aabbccddeeff
UOW = bytes(range(0x40, 0x50))
UOW_HEX = UOW.hex()
DIRECT = "OS:h\\q"
DIRECT_HEX = "4f00 5300 3a00 6800 5c00 7100 0000"
MQ_OK = "00000000"

# The tail of R_OpenQueue and R_OpenQueueForMove behind the name.
TAIL = (1, 0, GUID, 1, 6, 1, 0x1DB1, 0)
TAIL_HEX = f"01000000 00000000 {GUID_HEX} 01000000 06 01 b11d 00000000"

START = (HANDLE, 0x0011223344556677, 5, 0x80000000, 0xFFFFFFFF, 7, 0x400000, 0x500000)
START_HEX = (
    f"{HANDLE_HEX} 00000000 7766554433221100 05000000 00000080 ffffffff 07000000 00004000 00005000"
)

# What is the same in both syntaxes: no pointer, no count, no enumeration in it.
SAME_REQUESTS = [
    (0, GetServerPort(), ""),
    (3, CloseQueue(HANDLE), HANDLE_HEX),
    (4, CreateCursor(HANDLE), HANDLE_HEX),
    (5, CloseCursor(HANDLE, 0x01020304), f"{HANDLE_HEX} 04030201"),
    (6, PurgeQueue(HANDLE), HANDLE_HEX),
    (7, StartReceive(*START), START_HEX),
    (8, CancelReceive(HANDLE, 9), f"{HANDLE_HEX} 09000000"),
    (9, EndReceive(HANDLE, 2, 9), f"{HANDLE_HEX} 02000000 09000000"),
    (
        10,
        MoveMessage(HANDLE, 0x1122334455667788, 0x0102030405060708, UOW),
        f"{HANDLE_HEX} 00000000 8877665544332211 0807060504030201 {UOW_HEX}",
    ),
    (13, StartTransactionalReceive(*START, UOW), f"{START_HEX} {UOW_HEX}"),
    (
        14,
        SetUserAcknowledgementClass(HANDLE, 3, 0xC004),
        f"{HANDLE_HEX} 00000000 0300000000000000 04c0",
    ),
    (15, EndReceive(HANDLE, 1, 9), f"{HANDLE_HEX} 01000000 09000000"),
]
SAME_RESPONSES = [
    (0, ServerPort(2103), "37080000"),
    (2, OpenQueueResponse(HANDLE), HANDLE_HEX),
    (3, ClosedQueue(bytes(20), 0), f"{'00' * 20} {MQ_OK}"),
    (4, CreatedCursor(3, 0xC0000008), "03000000 080000c0"),
    (5, Status(0xC0000008), "080000c0"),
    (6, Status(0xC0000022), "220000c0"),
    (8, Status(0), MQ_OK),
    (9, Status(0xC00E0007), "07000ec0"),
    (10, Status(0xC00E0051), "51000ec0"),
    (
        11,
        OpenedQueueForMove(0x8877665544332211, HANDLE),
        f"1122334455667788 {HANDLE_HEX}",
    ),
    (12, Status(0xC00E0058), "58000ec0"),
    (14, Status(0xC00E0050), "50000ec0"),
    (15, Status(0xC00E0088), "88000ec0"),
]

# QUEUE_FORMAT: type, suffix and flags, reserved; tag of the union and its arm.
PUBLIC, PRIVATE = QueueFormat(1, 0, GUID), QueueFormat(2, 0x81, ObjectId(GUID, 13))
DIRECT_FORMAT, SUBQUEUE = QueueFormat(3, 0, DIRECT), QueueFormat(8, 5, DIRECT)
MACHINE, NULL_TEXT = QueueFormat(4, 0x82, GUID), QueueFormat(3, 0, None)
FORMATS_NDR = [
    (QueueFormat(0), "00 00 0000 00 000000"),
    (PUBLIC, f"01 00 0000 01 000000 {GUID_HEX}"),
    (PRIVATE, f"02 81 0000 02 000000 {GUID_HEX} 0d000000"),
    (
        DIRECT_FORMAT,
        f"03 00 0000 03 000000 00000200 07000000 00000000 07000000 {DIRECT_HEX} 0000",
    ),
    (SUBQUEUE, f"08 05 0000 08 000000 00000200 07000000 00000000 07000000 {DIRECT_HEX} 0000"),
    (MACHINE, f"04 82 0000 04 000000 {GUID_HEX}"),
    (NULL_TEXT, "03 00 0000 03 000000 00000000"),
]
GAP = "00000000000000"
TEXT_NDR64 = (
    f"0000020000000000 0700000000000000 0000000000000000 0700000000000000 {DIRECT_HEX} 0000"
)
FORMATS_NDR64 = [
    (QueueFormat(0), f"00 00 0000 00000000 00 {GAP}"),
    (PUBLIC, f"01 00 0000 00000000 01 {GAP} {GUID_HEX}"),
    (PRIVATE, f"02 81 0000 00000000 02 {GAP} {GUID_HEX} 0d000000 00000000"),
    (DIRECT_FORMAT, f"03 00 0000 00000000 03 {GAP} {TEXT_NDR64}"),
    (SUBQUEUE, f"08 05 0000 00000000 08 {GAP} {TEXT_NDR64}"),
    (MACHINE, f"04 82 0000 00000000 04 {GAP} {GUID_HEX}"),
    (NULL_TEXT, f"03 00 0000 00000000 03 {GAP} 0000000000000000"),
]
OPENS = [
    (opnum, ndr64, OpenQueueRequest(name, *TAIL), f"{text} {TAIL_HEX}")
    for opnum in (2, 11)
    for ndr64, formats in ((False, FORMATS_NDR), (True, FORMATS_NDR64))
    for name, text in formats
]

# A token of odd length: what follows it is aligned again.
ENLISTED_NDR = f"{UOW_HEX} 05000000 05000000 a1a2a3a4a5 000000 01 00 0000 01 000000 {GUID_HEX}"
ENLISTED_NDR64 = (
    f"{UOW_HEX} 05000000 00000000 0500000000000000 a1a2a3a4a5 000000"
    f"01 00 0000 00000000 01 {GAP} {GUID_HEX}"
)
ENLIST = EnlistRemoteTransaction(UOW, bytes.fromhex("a1a2a3a4a5"), PUBLIC)

WHOLE = Received(0x11223344, 0x0001020304050607, (Section(0, 5, b"\x01\x02\x03\x04\x05"),), 0)
CUT = Received(7, 8, (Section(1, 900, b"\xaa" * 6), Section(2, 3, b"\xbb" * 3)), 0)
NOTHING = not_received(0xC00E001B)
RECEIVED_NDR = [
    (
        WHOLE,
        "44332211 00000000 0706050403020100 01000000 00000200 01000000"
        "0000 0000 05000000 05000000 04000200"
        "05000000 0102030405 000000 00000000",
    ),
    (
        CUT,
        "07000000 00000000 0800000000000000 02000000 00000200 02000000"
        "0100 0000 84030000 06000000 04000200"
        "0200 0000 03000000 03000000 08000200"
        "06000000 aaaaaaaaaaaa 0000 03000000 bbbbbb 00 00000000",
    ),
    (NOTHING, "00000000 00000000 0000000000000000 00000000 00000000 1b000ec0"),
]
RECEIVED_NDR64 = [
    (
        WHOLE,
        "44332211 00000000 0706050403020100 01000000 00000000 0000020000000000 0100000000000000"
        "00000000 05000000 05000000 00000000 0400020000000000"
        "0500000000000000 0102030405 000000 00000000",
    ),
    (
        CUT,
        "07000000 00000000 0800000000000000 02000000 00000000 0000020000000000 0200000000000000"
        "01000000 84030000 06000000 00000000 0400020000000000"
        "02000000 03000000 03000000 00000000 0800020000000000"
        "0600000000000000 aaaaaaaaaaaa 0000 0300000000000000 bbbbbb 00 00000000",
    ),
    (NOTHING, "00000000 00000000 0000000000000000 00000000 00000000 0000000000000000 1b000ec0"),
]

REQUESTS = [
    *(
        (opnum, ndr64, value, text)
        for opnum, value, text in SAME_REQUESTS
        for ndr64 in (False, True)
    ),
    *OPENS,
    (12, False, ENLIST, ENLISTED_NDR),
    (12, True, ENLIST, ENLISTED_NDR64),
]
RESPONSES: list[tuple[int, bool, Any, str]] = [
    *(
        (opnum, ndr64, value, text)
        for opnum, value, text in SAME_RESPONSES
        for ndr64 in (False, True)
    ),
    *((opnum, False, value, text) for value, text in RECEIVED_NDR for opnum in (7, 13)),
    *((opnum, True, value, text) for value, text in RECEIVED_NDR64 for opnum in (7, 13)),
]
