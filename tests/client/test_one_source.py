"""The blocking client is made of the asyncio one."""

from __future__ import annotations

from tools import blocking_client


def test_the_blocking_client_is_what_its_source_gives() -> None:
    """Made by: python -m tools.blocking_client"""
    for source, name in blocking_client.FILES.items():
        text = (blocking_client.CLIENT / name).read_text(encoding="utf-8")
        assert text == blocking_client.made(blocking_client.CLIENT / source), name
