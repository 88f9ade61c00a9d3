"""Writes HTTP messages: responses and requests (RFC 9112)."""

from __future__ import annotations

from collections.abc import Iterable
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Final

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_WHY_MAX: Final = 500


def response(
    status: int, why: str = "", *, keep: bool = True, is_old: bool = False, utc: int = 0
) -> bytes:
    """A response; `why` is for people. A peer of HTTP/1.0 is told that the connection stays.

    With `utc` it has a Date: a sender whose clock is off learns it so.
    """
    if status == 200 and keep and not is_old and not why:
        return _ok(utc)
    return _response(status, why, keep, is_old, utc)


@lru_cache(8)
def _ok(utc: int) -> bytes:
    return _response(200, "", True, False, utc)


def _response(status: int, why: str, keep: bool, is_old: bool, utc: int) -> bytes:
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
    if utc:
        lines.append(f"Date: {formatdate(utc, usegmt=True)}")
    body = f"{_one_line(why)}\n".encode() if why else b""
    if body:
        lines.append("Content-Type: text/plain; charset=utf-8")
    lines.append(f"Content-Length: {len(body)}")
    if status == 405:
        lines.append("Allow: POST")
    if not keep:
        lines.append("Connection: close")
    elif is_old:
        lines.append("Connection: keep-alive")
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body


def _one_line(text: str) -> str:
    shown = " ".join(text.split())
    return shown if len(shown) <= _WHY_MAX else shown[:_WHY_MAX] + "..."


def request(
    target: str, host: str, fields: Iterable[tuple[str, str]], payload: bytes
) -> list[bytes]:
    """A POST with its body, as parts to be written together."""
    lines = [f"POST {target} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in fields]
    lines.append(f"Content-Length: {len(payload)}")
    text = "\r\n".join([*lines, "", ""])
    assert text.count("\n") == len(lines) + 1, "a header field holds a line end"
    return [text.encode("latin-1"), payload]


def connect_request(host: str) -> bytes:
    """Asks a proxy for a way through to `host:port` (RFC 9110 9.3.6)."""
    return f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode("ascii")
