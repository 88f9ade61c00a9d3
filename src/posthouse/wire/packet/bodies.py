"""Finds the bodies of many packets quickly, since their headers are often alike."""

from __future__ import annotations

from typing import NamedTuple

from posthouse.wire.packet.packet_fields import PacketSummary, front_of, summarize
from posthouse.wire.packet.patch import SENT_TIME_AT, USER_FLAGS_AT


class _Seen(NamedTuple):
    """A packet, as far as the next one has to be like it for its body to lie in the same place."""

    size: int
    front: bytes
    rest: bytes
    body: slice


_last = _Seen(-1, b"", b"", slice(0))


def body_of(packet: bytes) -> slice:
    """Where the body lies; messages that follow each other are often alike."""
    global _last
    size, front, rest, body = _last
    if len(packet) == size and packet.startswith(rest, USER_FLAGS_AT) and packet.startswith(front):
        return body
    seen = summarize(packet)
    body = slice(seen.body_at, seen.body_at + seen.body_size)
    if front := front_of(packet, seen):
        _last = _Seen(len(packet), packet[:SENT_TIME_AT], front[USER_FLAGS_AT:], body)
    return body


def label_bytes(packet: bytes, seen: PacketSummary) -> bytes:
    """The label as it is in the packet, its NUL included."""
    return packet[seen.label_at : seen.label_at + seen.label_size]


def body_bytes(packet: bytes, seen: PacketSummary) -> bytes:
    """The body as it is in the packet."""
    return packet[seen.body_at : seen.body_at + seen.body_size]


def with_label(packet: bytes, seen: PacketSummary, label: bytes) -> bytes:
    """The packet with another label of the same size."""
    assert len(label) == seen.label_size
    return packet[: seen.label_at] + label + packet[seen.label_at + seen.label_size :]
