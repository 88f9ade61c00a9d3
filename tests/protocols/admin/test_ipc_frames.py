"""Arrow's IPC stream is cut into the same messages however its bytes come, if it is one."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import QueueError
from posthouse.protocols.arrow import ipc_frames
from posthouse.protocols.arrow.ipc_frames import Content, Frame, IpcFrames
from posthouse.protocols.handlers.refusals import BadRequest, BodyTooLarge

SCHEMA = pa.schema([("body", pa.binary()), ("label", pa.string())])


def batch(rows: int) -> pa.RecordBatch:
    return pa.record_batch([[b"x" * n for n in range(rows)], ["label"] * rows], schema=SCHEMA)


def stream(*sizes: int, options: pa.ipc.IpcWriteOptions | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA, options=options) as writer:
        for size in sizes:
            writer.write_batch(batch(size))
    return bytes(sink.getvalue())


STREAM = stream(3, 0, 20)


def cut(data: bytes, places: list[int]) -> list[Frame]:
    frames = IpcFrames()
    bounds = [0, *sorted(places), len(data)]
    found = [frame for low, high in pairwise(bounds) for frame in frames.feed(data[low:high])]
    assert frames.ended
    return found


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_the_messages_are_the_same_however_the_bytes_come(places: list[int]) -> None:
    found = cut(STREAM, places)
    assert [frame.content for frame in found] == [Content.SCHEMA, *[Content.RECORD_BATCH] * 3]
    assert b"".join(frame.data for frame in found) == STREAM[:-8]
    read = [pa.ipc.read_record_batch(pa.ipc.read_message(f.data), SCHEMA) for f in found[1:]]
    assert read == [batch(3), batch(0), batch(20)]


@given(st.integers(0, len(STREAM) - 1))
def test_a_stream_that_breaks_off_has_not_ended(length: int) -> None:
    frames = IpcFrames()
    frames.feed(STREAM[:length])
    assert not frames.ended
    assert frames.missing > 0


@given(st.binary(max_size=300), st.integers(0, 400))
def test_any_bytes_give_messages_or_a_refusal(data: bytes, kept: int) -> None:
    frames = IpcFrames()
    try:
        frames.feed(STREAM[:kept] + data)
    except QueueError:
        return
    assert frames.missing >= 0


@given(st.integers(0, 399), st.integers(0, 255))
def test_one_wrong_byte_gives_messages_or_a_refusal(place: int, value: int) -> None:
    data = bytearray(STREAM[:400])
    data[place] = value
    frames = IpcFrames()
    try:
        frames.feed(bytes(data))
    except QueueError:
        return
    assert frames.missing >= 0


def test_compressed_batches_are_refused() -> None:
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pytest.raises(BadRequest, match="compressed"):
        cut(stream(500, options=options), [])


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_older_versions_of_the_format_are_refused(compression: str | None) -> None:
    """They say elsewhere that a batch is compressed."""
    options = pa.ipc.IpcWriteOptions(
        metadata_version=pa.ipc.MetadataVersion.V4, compression=compression
    )
    with pytest.raises(BadRequest, match="another version"):
        cut(stream(500, options=options), [])


def test_metadata_of_a_batch_are_refused() -> None:
    data = b"".join(
        [
            SCHEMA.serialize().to_pybytes(),
            _with_metadata(batch(3)),
            b"\xff\xff\xff\xff\0\0\0\0",
        ]
    )
    with pytest.raises(BadRequest, match="metadata of their own"):
        cut(data, [])


def _with_metadata(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_batch(rows, custom_metadata={"a": "b"})
    return bytes(sink.getvalue())[len(SCHEMA.serialize()) : -8]


def test_dictionaries_are_refused() -> None:
    column = pa.array(["a", "b"]).dictionary_encode()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("label", column.type)])) as writer:
        writer.write_batch(pa.record_batch([column], names=["label"]))
    with pytest.raises(BadRequest, match="dictionaries"):
        cut(bytes(sink.getvalue()), [])


def test_bytes_behind_the_end_are_refused() -> None:
    with pytest.raises(BadRequest, match="after the end"):
        cut(STREAM + b"x", [])


def test_what_is_too_large_is_refused_before_it_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ipc_frames, "MESSAGE_MAX", 1000)
    data, frames = stream(100), IpcFrames()
    begun = data[:1000]
    with pytest.raises(BodyTooLarge, match="at most 1000 bytes"):
        frames.feed(begun)
    with pytest.raises(BodyTooLarge, match="metadata"):
        IpcFrames().feed(b"\xff\xff\xff\xff\xff\xff\xff\x7f")
