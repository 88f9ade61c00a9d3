"""The enumerations of queues and queue managers."""

from __future__ import annotations

from enum import Enum, IntEnum

import pytest

from posthouse.model.enumerations import (
    ConnectionStatus,
    DirectoryOperationResult,
    DirectoryServerType,
    MessageSeekAction,
    OperatingSystemType,
    OutgoingQueueState,
    QueueAccessType,
    QueueManagerState,
    QueuePrivacyLevel,
    QueueScope,
    QueueShareMode,
    QueueType,
)
from posthouse.model.format_names import FormatType
from posthouse.model.message_values import RequestedAuthentication
from posthouse.model.property_ids import MachineService, Vt
from posthouse.model.queue_name_parts import Suffix


def rule(section: str) -> pytest.MarkDecorator:
    return pytest.mark.spec(f"MS-MQDMPR {section}")


@pytest.mark.parametrize(
    ("enumeration", "words"),
    [
        pytest.param(
            OperatingSystemType,
            "OTHER FOREIGN WIN95 WIN_CLIENT WIN_SERVER WIN_ENT",
            marks=rule("3.1.1.1/3"),
        ),
        (
            DirectoryServerType,
            "STANDALONE BACKUP_SITE_CONTROLLER PRIMARY_SITE_CONTROLLER "
            "PRIMARY_ENTERPRISE_CONTROLLER",
        ),
        (QueueManagerState, "STOPPED INITIALIZING READY STOPPING"),
        pytest.param(QueueType, "PRIVATE PUBLIC SYSTEM CONNECTOR", marks=rule("3.1.1.2/14")),
        (QueuePrivacyLevel, "NONE OPTIONAL BODY"),
        pytest.param(
            OutgoingQueueState,
            "CONNECTED DISCONNECTED DISCONNECTING INACTIVE LOCKED NEED_VALIDATION WAITING ON_HOLD",
            marks=rule("3.1.1.3/2"),
        ),
        pytest.param(
            DirectoryOperationResult,
            "SUCCESS GENERIC_ERROR DIRECTORY_NOT_CONNECTED OBJECT_NOT_FOUND ATTRIBUTE_NOT_FOUND "
            "END_OF_DATA OBJECT_ALREADY_EXISTS",
            marks=rule("3.1.1.17/1"),
        ),
        pytest.param(
            MessageSeekAction,
            "FIRST PREVIOUS CURRENT NEXT LAST",
            marks=rule("3.1.1.17/2"),
        ),
        pytest.param(QueueShareMode, "DENY_NONE DENY_RECEIVE", marks=rule("3.1.1.17/5")),
    ],
)
def test_values_are_exactly_those_of_the_document(enumeration: type[Enum], words: str) -> None:
    assert [member.name for member in enumeration] == words.split()


@pytest.mark.spec("MS-MQDMPR 3.1.1.3/8")
def test_there_are_seventeen_connection_statuses() -> None:
    assert len(ConnectionStatus) == 17
    good = [status for status in ConnectionStatus if not status.is_failure]
    assert [status.value for status in good] == [0, 1, 2]
    bad = [status.value for status in ConnectionStatus if status.is_failure]
    assert bad == [0x80000000 + number for number in range(14)]


def test_access_numbers_are_those_of_the_api() -> None:
    assert {access.name: access.value for access in QueueAccessType} == {
        "RECEIVE": 1,
        "SEND": 2,
        "MOVE": 4,
        "PEEK": 0x20,
        "RECEIVE_ADMIN": 0x81,
        "PEEK_ADMIN": 0xA0,
    }


@pytest.mark.parametrize(
    ("enumeration", "numbers"),
    [
        (OperatingSystemType, [0, 0x100, 0x200, 0x300, 0x400, 0x500]),
        (QueueScope, [0, 1]),
        (QueuePrivacyLevel, [0, 1, 2]),
        (QueueAccessType, [0x01, 0x02, 0x04, 0x20, 0x81, 0xA0]),
        (QueueShareMode, [0, 1]),
        (ConnectionStatus, [0, 1, 2, *range(0x80000000, 0x8000000E)]),
        (FormatType, list(range(9))),
        (Suffix, list(range(6))),
        (RequestedAuthentication, [0, 1, 2, 4, 8]),
        (MachineService, [0, 1, 2, 4, 8, 0x10]),
        (Vt, [0, 1, 2, 3, 11, 12, 16, 17, 18, 19, 20, 21, 31, 65, 72, 0x1000]),
    ],
)
def test_numbers_that_others_know_are_theirs(
    enumeration: type[IntEnum], numbers: list[int]
) -> None:
    """[MS-MQMQ] 2.2.6, 2.2.11, 2.2.12, 2.3 and the API: packets, records and calls carry them."""
    assert [member.value for member in enumeration] == numbers
