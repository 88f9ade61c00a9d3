"""What stands behind the computer in a name."""

from __future__ import annotations

import pytest

from posthouse.model.queue_name_parts import (
    NameFault,
    PathKind,
    QueuePart,
    Suffix,
    check_name,
    split_queue_part,
)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("q", QueuePart(PathKind.PUBLIC, "q")),
        ("PRIVATE$\\q", QueuePart(PathKind.PRIVATE, "q")),
        ("q;sub", QueuePart(PathKind.PUBLIC, "q", "sub")),
        ("q;JOURNAL", QueuePart(PathKind.PUBLIC, "q", suffix=Suffix.JOURNAL)),
        ("System$;DeadXact", QueuePart(PathKind.SYSTEM, "system$", suffix=Suffix.DEADXACT)),
        ("private$\\system$;sub", QueuePart(PathKind.PRIVATE, "system$", "sub")),
    ],
)
def test_parts_are_told_apart(text: str, part: QueuePart) -> None:
    assert split_queue_part(text, "\\") == part
    part.check()


def test_only_the_given_separators_end_the_private_prefix() -> None:
    part = split_queue_part("private$/q", "\\")
    assert part == QueuePart(PathKind.PUBLIC, "private$/q")
    with pytest.raises(NameFault, match="reserved"):
        part.check()


@pytest.mark.parametrize("code", [*range(0x21), 0x22, 0x2B, 0x2C, 0x3B, 0x5C, 0x7F, 0x85, 0xA0])
def test_forbidden_characters_are_refused(code: int) -> None:
    with pytest.raises(NameFault, match=r"character 2"):
        check_name(f"a{chr(code)}b", "queue name", 124)


@pytest.mark.parametrize("code", [c for c in range(0x21, 0x7F) if chr(c) not in '"+,;\\'])
def test_every_other_visible_character_is_accepted(code: int) -> None:
    check_name(chr(code), "queue name", 124)


@pytest.mark.parametrize("text", ["größe", "очередь", "キュー", "\U0001f4ee"])
def test_unicode_names_are_accepted(text: str) -> None:
    check_name(text, "queue name", 124)


@pytest.mark.parametrize("text", ["\ud800", "a\u202eb", "a\u200bb", "a\u3000b", "a\ufeff", "a\xad"])
def test_invisible_characters_and_half_pairs_are_refused(text: str) -> None:
    with pytest.raises(NameFault):
        check_name(text, "queue name", 124)


def test_lengths_count_wchars() -> None:
    check_name("\U0001f4ee" * 62, "queue name", 124)
    with pytest.raises(NameFault, match="126 characters"):
        check_name("\U0001f4ee" * 63, "queue name", 124)


@pytest.mark.parametrize(
    "part",
    [
        QueuePart(PathKind.SYSTEM, "system$"),
        QueuePart(PathKind.SYSTEM, "system$", suffix=Suffix.XACTONLY),
        QueuePart(PathKind.SYSTEM, "system$", "sub", Suffix.JOURNAL),
        QueuePart(PathKind.SYSTEM, "q", suffix=Suffix.JOURNAL),
        QueuePart(PathKind.PRIVATE, "q", suffix=Suffix.DEADLETTER),
        QueuePart(PathKind.PRIVATE, "q", suffix=Suffix.SUBQUEUE),
        QueuePart(PathKind.PRIVATE, "q", "sub", Suffix.JOURNAL),
        QueuePart(PathKind.PRIVATE, "q", "DeadLetter"),
        QueuePart(PathKind.PUBLIC, "PRIVATE$"),
        QueuePart(PathKind.PUBLIC, "\u017fystem$", suffix=Suffix.JOURNAL),
    ],
)
def test_parts_that_could_not_be_read_back_are_refused(part: QueuePart) -> None:
    with pytest.raises(NameFault):
        part.check()
