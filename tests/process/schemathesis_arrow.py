"""What schemathesis sends where the API takes a stream of Arrow's: a table without rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import schemathesis

from posthouse.api.route import ARROW

SCHEMA = pa.schema([("body", pa.binary())])


@schemathesis.serializer(ARROW)
def empty_stream(context: Any, value: Any) -> bytes:
    """The document says nothing of what is in the stream."""
    sink = pa.BufferOutputStream()
    pa.ipc.new_stream(sink, SCHEMA).close()
    return bytes(sink.getvalue())
