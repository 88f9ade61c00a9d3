"""Stubs in pieces, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import MalformedPacket
from posthouse.rpc.fragments import Partial, cut

NO_ROOM = 0x1C00001B


@given(st.binary(max_size=300), st.integers(1, 64))
def test_pieces_are_the_stub_and_none_is_too_large(stub: bytes, room: int) -> None:
    pieces = cut(stub, room)
    assert b"".join(pieces) == stub
    assert max(map(len, pieces)) <= room
    assert len(pieces) == max(1, -(-len(stub) // room))


def test_empty_stub_is_one_piece() -> None:
    assert cut(b"", 8) == [b""]


@pytest.mark.spec("RPC/19")
@given(st.lists(st.binary(max_size=40), max_size=12), st.integers(0, 200))
def test_pieces_are_kept_up_to_their_limit(pieces: list[bytes], size_max: int) -> None:
    partial = Partial(1, 2, None, 0)
    held = 0
    for piece in pieces:
        held += partial.add(piece, size_max, NO_ROOM)
        assert held == len(partial.parts) <= size_max
    whole = b"".join(pieces)
    if len(whole) <= size_max:
        assert (bytes(partial.parts), partial.status) == (whole, 0)
    else:
        assert (bytes(partial.parts), partial.status) == (b"", NO_ROOM)


def test_call_that_failed_keeps_its_first_reason() -> None:
    partial = Partial(1, 2, None, 0)
    partial.add(b"1234", 10, NO_ROOM)
    assert partial.fail(5) == -4
    assert partial.add(bytes(100), 10, NO_ROOM) == 0
    assert partial.status == 5


def test_fragments_are_of_one_call() -> None:
    login = object()
    partial = Partial(1, 2, login, 0)
    partial.check(1, 2, login)
    for context_id, opnum, security in ((2, 2, login), (1, 3, login), (1, 2, None)):
        with pytest.raises(MalformedPacket):
            partial.check(context_id, opnum, security)
