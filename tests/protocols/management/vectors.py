"""Stubs of both methods, packed by hand from the IDL ([MS-MQMR] 6, [MS-MQMQ] 2.2.13).

Each with its opnum, whether it is NDR64, and the value it stands for.
"""

from __future__ import annotations

from typing import Any

from posthouse.protocols.management.stubs import (
    MACHINE,
    ActionResult,
    Asked,
    GetProperties,
    ManagedObject,
    ManagementAction,
    PropertyValues,
)
from posthouse.protocols.queue_format import QueueFormat
from posthouse.rpc.propvariant import Variant

Vector = tuple[int, bool, Any, str]

NULL = "0100 0000 00000000 0100"  # VT_NULL: type, reserved, and the tag of the union
QUEUE = ManagedObject(2, QueueFormat(3, 0, "OS:h\\q"))
NAME = "4f00 5300 3a00 6800 5c00 7100 0000"
PAUSE = "5000 4100 5500 5300 4500 0000"

REQUESTS: list[Vector] = [
    (
        0,
        False,
        GetProperties(MACHINE, (Asked(1), Asked(6))),
        "0100 0100 00000000"  # type, tag, Reserved1
        "02000000 02000000 01000000 06000000"  # cp, count of aProp, aProp
        f"02000000 00000000 {NULL} 000000000000 {NULL}",  # count of apVar; values begin at 8
    ),
    (
        0,
        True,
        GetProperties(MACHINE, (Asked(1), Asked(6))),
        "01000000 00000000 01000000 00000000 00000000 00000000"
        "02000000 00000000 0200000000000000 01000000 06000000"
        f"0200000000000000 {NULL} 000000000000 {NULL} 000000000000",
    ),
    (
        1,
        False,
        ManagementAction(QUEUE, "PAUSE"),
        "0200 0200 00000200"  # type, tag, pointer
        f"03 00 0000 03 000000 04000200 07000000 00000000 07000000 {NAME} 0000"
        f"06000000 00000000 06000000 {PAUSE}",
    ),
    (
        1,
        True,
        ManagementAction(QUEUE, "PAUSE"),
        "02000000 00000000 02000000 00000000 0000020000000000"
        "03 00 0000 00000000 03 00000000000000 0400020000000000"
        f"0700000000000000 0000000000000000 0700000000000000 {NAME} 0000"
        f"0600000000000000 0000000000000000 0600000000000000 {PAUSE}",
    ),
]
VALUES = (
    Variant(0x101F, ("a", "bc")),  # two strings
    Variant(0x1F, "x"),
    Variant(0x13, 7),  # VT_UI4
    Variant(0x14, -2),  # VT_I8
    Variant(1),
    Variant(0x41, b"\x01\x02\x03"),  # VT_BLOB
    Variant(0x100C, (Variant(0x1013, (1, 2)), Variant(0x1048, (bytes(range(16)),)))),
)
RESPONSES: list[Vector] = [
    (
        0,
        False,
        PropertyValues(VALUES, 0),
        "07000000 00000000"  # count; values begin at 8
        "1f10 0000 00000000 1f10 0000 02000000 00000200 00000000"  # 8: count and pointer at 12
        "1f00 0000 00000000 1f00 0000 04000200"  # 32: pointer at 12
        "1300 0000 00000000 1300 0000 07000000"  # 48
        "1400 0000 00000000 1400 0000 00000000 feffffffffffffff"  # 64: a hyper at 16
        "0100 0000 00000000 0100 000000000000"  # 88
        "4100 0000 00000000 4100 0000 03000000 08000200 00000000"  # 104
        "0c10 0000 00000000 0c10 0000 02000000 0c000200"  # 128; what is pointed to from 148 on
        "02000000 10000200 14000200"
        "02000000 00000000 02000000 6100 0000"
        "03000000 00000000 03000000 6200 6300 0000 0000"
        "02000000 00000000 02000000 7800 0000"
        "03000000 010203 00"
        "02000000"  # two values, which begin at a multiple of 8: 224
        "1310 0000 00000000 1310 0000 02000000 18000200 00000000"
        "4810 0000 00000000 4810 0000 01000000 1c000200"
        "02000000 01000000 02000000"
        "01000000 000102030405060708090a0b0c0d0e0f"
        "00000000",
    ),
    (
        0,
        True,
        PropertyValues((Variant(0x13, 7), Variant(0x1F, "x"), Variant(0x14, -2)), 0xC00E0025),
        "0300000000000000"
        "1300 0000 00000000 1300 000000000000 07000000 00000000"
        "1f00 0000 00000000 1f00 000000000000 0000020000000000"
        "1400 0000 00000000 1400 000000000000 feffffffffffffff"
        "0200000000000000 0000000000000000 0200000000000000 7800 0000"
        "25000ec0",
    ),
    (1, False, ActionResult(0xC00E0006), "06000ec0"),
    (1, True, ActionResult(0), "00000000"),
]
