"""docs/ncp.md names every call that is served, and those that clients ask for in vain."""

from __future__ import annotations

from pathlib import Path

from posthouse.wire.ncp.functions import CALLS, NOT_SERVED

PAGE = (Path(__file__).parents[3] / "docs" / "ncp.md").read_text(encoding="utf-8")


def test_every_call_that_is_served_is_listed() -> None:
    served, _, _ = PAGE.partition("## Calls that are not")
    assert [c.number for c in CALLS.values() if f"| {c.number} | {c.name} |" not in served] == []


def test_directory_and_trustee_calls_are_listed_as_not_served() -> None:
    _, _, refused = PAGE.partition("## Calls that are not")
    for (function, subfunction), name in NOT_SERVED.items():
        number = f"0x{function:02X}"
        if subfunction is not None:
            number = f"{function}/0x{subfunction:02X}"
        assert f"| {number} | {name} |" in refused


def test_no_call_is_both() -> None:
    assert not CALLS.keys() & NOT_SERVED.keys()
