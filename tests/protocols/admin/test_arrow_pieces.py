"""Streams of record batches in pieces: the same bytes as in one, however they are cut."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

import pyarrow as pa
import pyarrow.ipc
from hypothesis import given
from hypothesis import strategies as st

from posthouse.protocols.arrow.columns import END
from posthouse.protocols.arrow.output_buffers import Pieces
from posthouse.protocols.http.answer_streams import _portions

SCHEMA = pa.schema([("number", pa.int64()), ("text", pa.string()), ("bytes", pa.binary())])


def batch_of(count: int) -> Any:
    columns = [range(count), [f"{number}" for number in range(count)], [b"body"] * count]
    return pa.record_batch([pa.array(column) for column in columns], schema=SCHEMA)


def test_pieces_are_the_messages_of_a_stream_without_its_schema() -> None:
    pieces, batches = Pieces(SCHEMA), [batch_of(count) for count in (3, 1000, 1)]
    data = b"".join(b"".join(pieces.of(batch)) for batch in batches)
    stream = SCHEMA.serialize().to_pybytes() + data + END
    assert pa.ipc.open_stream(stream).read_all() == pa.Table.from_batches(batches)


def test_columns_stay_where_they_lie() -> None:
    batch = batch_of(1000)
    address = batch.column("number").buffers()[1].address
    pieces = Pieces(SCHEMA).of(batch)
    assert address in {pa.py_buffer(piece).address for piece in pieces}


def test_pieces_outlive_whatever_they_were_made_of() -> None:
    writer, batch = Pieces(SCHEMA), batch_of(5000)
    expected, data = batch.to_pydict(), batch.serialize().to_pybytes()
    pieces = writer.of(batch)
    del writer, batch
    others = [batch_of(5000) for _ in range(8)]  # what would take over memory that is free
    assert b"".join(pieces) == data
    assert others[0].to_pydict() == expected


def test_nothing_is_left_of_a_stream() -> None:
    pieces = Pieces(SCHEMA)
    pieces.of(batch_of(3))
    gone = ref(pieces)
    del pieces
    gc.collect()
    assert gone() is None


@given(st.lists(st.binary(max_size=40), max_size=10), st.integers(1, 30))
def test_portions_are_the_same_bytes_in_lists_of_one_size(data: list[bytes], size: int) -> None:
    cut = [b"".join(portion) for portion in _portions(map(memoryview, data), size)]
    assert b"".join(cut) == b"".join(data)
    assert all(len(portion) == size for portion in cut[:-1])
    assert all(0 < len(portion) <= size for portion in cut)
