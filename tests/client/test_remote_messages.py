"""Messages rebuilt from sections of remote read: whole, cut, with what follows, and nonsense."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.client.remote.messages import CutMessage, rebuilt
from posthouse.model.errors import RemoteProtocolError
from posthouse.protocols.remote_read.stubs import Received, Section
from posthouse.wire.packet.remote_read import read_packet
from tests.client.read_peer import packet, with_trailers

NAME = "there"
TRAILERS = st.fixed_dictionaries(
    {
        "acknowledgement_class": st.integers(0, 0xFFFF),
        "aborts": st.integers(0, 0xFFFFFFFF),
        "moves": st.integers(0, 0xFFFFFFFF),
        "last_move": st.integers(0, 0xFFFFFFFF),
        "subqueue": st.sampled_from(["", "poison"]),
        "dead_letter": st.sampled_from(["", r"alpha\private$\dead"]),
        "address": st.sampled_from(["", "10.0.0.7", "fe80::1"]),
    }
)


def whole(data: bytes) -> Received:
    return Received(1, 7, (Section(0, len(data), data),), 0)


@given(
    st.binary(max_size=300),
    st.fixed_dictionaries(
        {
            "label": st.sampled_from(["", "a label"]),
            "trace": st.sampled_from(["", "PUBLIC=6f9619ff-8b86-d011-b42d-00c04fc964ff"]),
            "priority": st.integers(0, 7),
            "recoverable": st.booleans(),
            "extension": st.binary(max_size=9),
            "time_to_reach_queue": st.sampled_from([None, 0, 60]),
        }
    ),
    TRAILERS,
)
def test_a_message_is_what_was_stored(
    body: bytes, how: dict[str, Any], trailers: dict[str, Any]
) -> None:
    data = with_trailers(packet(body, **how), **trailers)
    message = rebuilt(whole(data), NAME)
    expected = read_packet(data)
    assert message.packet == expected.message
    assert message.body == body
    assert (message.label, message.extension) == (how["label"], how["extension"])
    assert message.delivery == ("recoverable" if how["recoverable"] else "express")
    assert message.priority == how["priority"]
    named = bool(trailers["subqueue"])  # without a name its counters are to be ignored
    assert message.abort_count == (min(trailers["aborts"], 0xFFFF) if named else 0)
    assert message.move_count == (min(trailers["moves"], 0xFFFF) if named else 0)
    assert message.message_class == (trailers["acknowledgement_class"] if named else 0)


@given(st.binary(max_size=50), st.integers(0, 60))
def test_a_cut_body_is_as_long_as_it_came(body: bytes, kept: int) -> None:
    data = with_trailers(packet(b"front" + body))
    at = data.index(b"front")
    kept = min(kept, 5 + len(body))
    end = at + 5 + len(body)
    sections = (Section(1, end, data[: at + kept]), Section(2, len(data) - end, data[end:]))
    message = rebuilt(Received(1, 7, sections, 0), NAME)
    assert message.body == (b"front" + body)[:kept]
    assert message.body_size == 5 + len(body)
    assert isinstance(message, CutMessage) == (kept < 5 + len(body))


def read_all(message: Any) -> None:
    """Everything that a message says."""
    for name in dir(type(message)):
        if not name.startswith("_") and isinstance(getattr(type(message), name), property):
            getattr(message, name)


@given(st.data())
def test_any_change_is_read_or_refused(data: st.DataObject) -> None:
    stored = bytearray(
        with_trailers(packet(b"some body", label="l"), subqueue="s", dead_letter=r"a\private$\d")
    )
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(stored) - 1))
        stored[at] = data.draw(st.integers(0, 255))
    size = data.draw(st.integers(0, len(stored)))
    changed = bytes(stored[: size or len(stored)])
    try:
        read_all(rebuilt(whole(changed), NAME))
    except (RemoteProtocolError, ValueError, OverflowError):
        return


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40), st.binary(max_size=40)), max_size=3)
)
def test_any_sections_are_read_or_refused(found: list[tuple[int, int, bytes]]) -> None:
    sections = tuple(Section(*one) for one in found)
    with pytest.raises(RemoteProtocolError):
        rebuilt(Received(1, 2, sections, 0), NAME)
