"""impacket reads what we write and writes what we read, for every method in both syntaxes."""

from __future__ import annotations

from typing import Any

import pytest
from impacket.dcerpc.v5.dtypes import NULL

from posthouse.protocols.queue_format import DlId, MulticastId, ObjectId
from posthouse.protocols.remote_read.stubs import (
    METHODS,
    QueueFormat,
    Received,
    Section,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from tests.protocols.remote_read import impacket_stubs
from tests.protocols.remote_read.stub_vectors import REQUESTS, RESPONSES

Vector = tuple[int, bool, Any, str]


def spoken_by_impacket(vector: Vector) -> bool:
    """Its unions have no arm that is empty, and its NDR64 no gap at the end of a structure."""
    _, ndr64, value, _ = vector
    name = getattr(value, "queue_format", None)
    return name is None or name.type not in ((0, 2) if ndr64 else (0,))


def call_of(opnum: int, ndr64: bool, suffix: str = "", data: bytes | None = None) -> Any:
    return getattr(impacket_stubs, METHODS[opnum].name + suffix)(data, isNDR64=ndr64)


def fill(call: Any, value: Any) -> Any:
    """Our values into impacket's fields, which are in the same order."""
    fields = [name for name, _ in call.structure]
    for name, part in zip(fields, flattened(value), strict=True):
        if isinstance(part, QueueFormat):
            fill_queue_format(call[name], part)
        elif isinstance(part, tuple):
            fill_sections(call, name, part)
        elif name == "pbPropagationToken":
            call[name] = [part[i : i + 1] for i in range(len(part))]
        else:
            call[name] = part
    return call


def flattened(value: Any) -> list[Any]:
    """With the counts that the IDL has as parameters of their own."""
    parts: list[Any] = []
    for name, part in zip(value._fields, value, strict=True):
        if name in ("propagation_token", "sections"):
            parts.append(len(part))
        parts.append(part)
    return parts


def fill_queue_format(target: Any, value: QueueFormat) -> None:
    target["m_qft"], target["m_SuffixAndFlags"] = value.type, value.suffix_and_flags
    union = target["union"]
    union["tag"] = value.type
    arm = impacket_stubs.QUEUE_FORMAT_UNION.union[value.type][0]
    if isinstance(value.arm, ObjectId | DlId | MulticastId):
        for (name, _), part in zip(union[arm].structure, value.arm, strict=True):
            union[arm][name] = part
    elif isinstance(value.arm, str):
        union[arm] = value.arm + "\0"
    else:
        union[arm] = NULL if value.arm is None else value.arm


def fill_sections(call: Any, name: str, sections: tuple[Section, ...]) -> None:
    if not sections:
        call[name] = NULL
    for section in sections:
        item = impacket_stubs.SectionBuffer(isNDR64=call._isNDR64)
        item["SectionBufferType"], item["SectionSizeAlloc"] = section.type, section.size_alloc
        item["SectionSize"] = len(section.buffer)
        item["pSectionBuffer"] = [bytes([octet]) for octet in section.buffer]
        call[name].append(item)


@pytest.mark.spec("RPC/1", "RPC/2", "RPC/5", "RPC/7", "RPC/8")
@pytest.mark.parametrize("vector", list(filter(spoken_by_impacket, REQUESTS)))
def test_what_impacket_asks_is_understood(vector: Vector) -> None:
    opnum, ndr64, value, text = vector
    call = fill(call_of(opnum, ndr64), value)
    stub = call.getData()
    assert decode_request(opnum, stub, ndr64) == value
    assert len(stub) == len(bytes.fromhex(text)) == len(encode_request(opnum, value, ndr64))


@pytest.mark.spec("RPC/3", "RPC/4", "RPC/9")
@pytest.mark.parametrize("vector", RESPONSES)
def test_impacket_understands_what_is_answered(vector: Vector) -> None:
    opnum, ndr64, value, _ = vector
    stub = encode_response(opnum, value, ndr64)
    found = call_of(opnum, ndr64, "Response", stub)
    expected = fill(call_of(opnum, ndr64, "Response"), value)
    for name, _ in found.structure:
        if name == "ppPacketSections":
            assert sections_of(found) == value.sections
        else:
            assert found[name] == expected[name]


def sections_of(answer: Any) -> tuple[Section, ...]:
    return tuple(
        Section(
            item["SectionBufferType"],
            item["SectionSizeAlloc"],
            b"".join(item["pSectionBuffer"]),
        )
        for item in answer["ppPacketSections"] or ()
    )


@pytest.mark.parametrize("vector", RESPONSES)
def test_answers_of_impacket_are_understood(vector: Vector) -> None:
    opnum, ndr64, value, _ = vector
    stub = fill(call_of(opnum, ndr64, "Response"), value).getData()
    assert decode_response(opnum, stub, ndr64) == value


@pytest.mark.parametrize("ndr64", [False, True], ids=["NDR", "NDR64"])
@pytest.mark.parametrize("size", range(9))
def test_sections_of_every_length_are_what_impacket_reads(size: int, ndr64: bool) -> None:
    first, second = Section(1, 2 * size, b"a" * size), Section(2, 3, b"xyz")
    for sections in ((first,), (first, second), (second, first)):
        value = Received(1, 2, sections, 0xC00E0001)
        found = call_of(7, ndr64, "Response", encode_response(7, value, ndr64))
        assert sections_of(found) == sections
        assert (found["pSequenceId"], found["ErrorCode"]) == (2, 0xC00E0001)
