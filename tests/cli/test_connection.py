"""How commands reach a queue manager, and what they say when they do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from posthouse.cli.connection import path_of
from tests.cli.conftest import Posthouse


def test_no_queue_manager_at_home_is_not_reachable(posthouse: Posthouse, tmp_path: Path) -> None:
    for words in (["status"], ["send", "x", "--empty"], ["message", "find", "priority = 1"]):
        missed = posthouse(*words, "--home", tmp_path)
        assert missed.code == 3
        assert missed.out == ""
        assert missed.err.startswith(f"Not reachable: no queue manager answers at {tmp_path}")
        assert "posthouse serve" in missed.err


def test_no_queue_manager_at_an_address_is_not_reachable(posthouse: Posthouse) -> None:
    missed = posthouse("status", "--url", "http://127.0.0.1:1")
    assert missed.code == 3
    assert missed.err.startswith("Not reachable: ")


@pytest.mark.parametrize(
    "wrong",
    [
        ["--url", "ftp://host"],
        ["--url", "http://user:secret@host"],
        ["--url", "http://host", "--home", "here"],
        ["--token-file", "token"],
        ["--url", "http://host:port"],
    ],
)
def test_an_address_that_is_none_is_wrong_usage(posthouse: Posthouse, wrong: list[str]) -> None:
    refused = posthouse("status", *wrong)
    assert refused.code == 2
    assert "secret" not in refused.err


def test_names_in_paths_are_quoted() -> None:
    assert path_of("queues", "./a$/b?c#d;%", "purge") == (
        "/api/v1/queues/.%2Fa%24%2Fb%3Fc%23d%3B%25/purge"
    )
