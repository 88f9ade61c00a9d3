"""Strategies for rows of messages."""

from __future__ import annotations

from hypothesis import strategies as st

from posthouse.engine.ledger.records import (
    Row,
)

U8, U16, U32, U64 = (st.integers(0, (1 << bits) - 1) for bits in (8, 16, 32, 64))


ROWS = st.builds(Row, U64, U32, U32, U32, U32, U32, U32, U16, U16, U16, U8, U8, U8, U8)
