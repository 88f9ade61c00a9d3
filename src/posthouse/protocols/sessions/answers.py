"""Shared code for requests of client sessions: reads payloads, writes answers."""

from __future__ import annotations

from typing import TypeVar

from posthouse.protocols.engine_calls import Answer
from posthouse.wire.frames import frames, payloads

P = TypeVar("P", bound=payloads.Payload)


def decoded(kind: type[P], number: int, payload: bytes) -> P:
    """The payload of a request; one that is none ends the session."""
    value = frames.decode_payload(number, payload)
    assert isinstance(value, kind)
    return value


def structure(request: int, answer: Answer) -> bytes:
    """The frame of an answer that is a structure."""
    assert isinstance(answer.value, payloads.Payload)
    return frames.encode(request, answer.value)


def done(request: int, answer: Answer) -> bytes:
    """DONE."""
    return frames.encode(request, payloads.Done())
