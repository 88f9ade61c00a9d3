"""Any value of the types that RPC methods of MSMQ have as parameters."""

from __future__ import annotations

from hypothesis import strategies as st

from posthouse.protocols.queue_format import DlId, MulticastId, ObjectId, QueueFormat

U8, U16, U32 = (st.integers(0, (1 << bits) - 1) for bits in (8, 16, 32))
U64, I32 = st.integers(0, (1 << 64) - 1), st.integers(-(1 << 31), (1 << 31) - 1)
GUIDS = st.binary(min_size=16, max_size=16)
HANDLES = st.binary(min_size=20, max_size=20)
TEXT = st.none() | st.text(st.characters(), max_size=20)
FORMATS = st.one_of(
    st.tuples(st.just(0), U8, st.none()),
    st.tuples(st.sampled_from([1, 4, 5]), U8, GUIDS),
    st.tuples(st.just(2), U8, st.builds(ObjectId, GUIDS, U32)),
    st.tuples(st.sampled_from([3, 8]), U8, TEXT),
    st.tuples(st.just(6), U8, st.builds(DlId, GUIDS, TEXT)),
    st.tuples(st.just(7), U8, st.builds(MulticastId, U32, U32)),
).map(lambda parts: QueueFormat(*parts))
