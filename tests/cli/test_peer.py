"""`posthouse peer`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Posthouse

GUID = "5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b11"
BETA = ["BETA", GUID, "http://beta:8816"]


@pytest.fixture(autouse=True)
def nobody(ph: Posthouse) -> Iterator[None]:
    yield
    ph("peer", "remove", "BETA")


def test_a_key_is_made_and_printed_once(ph: Posthouse) -> None:
    added = ph("peer", "add", *BETA)
    key = added.out.strip()
    assert key.startswith("phk_")
    assert "cannot be shown again" in added.err
    listed = ph("peer", "list", "--json")
    assert (listed.value["name"], listed.value["guid"]) == ("BETA", GUID)
    assert key not in listed.out
    assert "http://beta:8816" in ph("peer", "list").out


@pytest.mark.parametrize("standard_input", [True, False])
def test_the_other_side_takes_the_key_from_a_file(
    ph: Posthouse, tmp_path: Path, standard_input: bool
) -> None:
    key = f"phk_{'ab' * 32}\n"
    (tmp_path / "key").write_text(key)
    file = "-" if standard_input else str(tmp_path / "key")
    added = ph("peer", "add", *BETA, "--key-file", file, "--json", stdin=key.encode()).value
    assert added["key"] is None
    assert added["peer"]["name"] == "BETA"


def test_a_file_without_a_key_is_wrong_usage(ph: Posthouse, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"\xff\x00secret")
    refused = ph("peer", "add", *BETA, "--key-file", tmp_path / "key")
    assert refused.code == 2
    assert "secret" not in refused.err
    assert ph("peer", "add", "BETA", "17", "http://beta:8816").code == 2


def test_a_peer_is_added_once_and_has_an_address(ph: Posthouse) -> None:
    ph("peer", "add", *BETA)
    assert ph("peer", "add", *BETA).code == 1
    assert ph("peer", "add", "GAMMA", GUID.replace("5", "6"), "ftp://gamma").code == 1


def test_a_peer_is_trusted_no_more_after_a_question(ph: Posthouse) -> None:
    ph("peer", "add", *BETA)
    assert ph("peer", "remove", "BETA", terminal=True, stdin=b"n\n").code == 1
    assert "would no longer be trusted" in ph("peer", "remove", "beta", "--dry-run").out
    assert ph("peer", "remove", "BETA", "--dry-run", "--json").value["guid"] == GUID
    assert ph("peer", "remove", "BETA").out == "BETA is no longer trusted.\n"
    for options in ([], ["--dry-run"]):
        assert ph("peer", "remove", "BETA", *options).code == 1
