"""Message classes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model import message_classes
from posthouse.model.errors import IllegalPropertyValue, QueueError
from posthouse.model.message_classes import (
    MESSAGE_CLASSES,
    MessageClass,
    class_code,
    class_name,
    is_about_receiving,
    is_negative,
)
from tests.model.strategies import attempt


def test_the_table_has_every_class_once() -> None:
    codes = [entry.code for entry in MESSAGE_CLASSES]
    assert codes == sorted(set(codes))
    assert len(codes) == 24
    assert set(range(0x8000, 0x800E)) < set(codes)
    assert set(range(0xC000, 0xC005)) < set(codes)


@pytest.mark.parametrize("entry", MESSAGE_CLASSES)
def test_a_class_is_found_by_each_of_its_names(entry: MessageClass) -> None:
    camel = "".join(word.capitalize() for word in entry.word.split("-"))
    assert class_name(entry.code) == entry.word
    assert getattr(message_classes, entry.word.upper().replace("-", "_")) == entry.code
    for name in (entry.word, camel, entry.packet_name, f"MQMSG_CLASS_{entry.packet_name}"):
        assert class_code(name) == entry.code


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/7")
@given(st.integers(0, 0xFFFF))
def test_classes_of_applications_have_a_word_too(code: int) -> None:
    assert class_code(class_name(code)) == code


@pytest.mark.parametrize("entry", MESSAGE_CLASSES)
def test_the_code_tells_failure_and_stage(entry: MessageClass) -> None:
    assert is_negative(entry.code) == entry.word.startswith("nack-")
    received = entry.word == "ack-receive" or entry.code >= 0xC000
    assert is_about_receiving(entry.code) == received


@given(st.text())
def test_any_word_is_a_class_or_refused(word: str) -> None:
    code = attempt(class_code, word, IllegalPropertyValue)
    assert isinstance(code, QueueError) or class_code(class_name(code)) == code
