"""A server begins to share transactions: where peers call it, and whose certificates it trusts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from posthouse.runtime.ports import PortSet
from posthouse.runtime.serve import DoorAddress, NotStarted, Options, Service, run
from tests.runtime.line_door import LineDoor


@pytest.fixture(autouse=True)
def usual_mask() -> Iterator[None]:
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


def urls(folder: Path, settings: str, *, listening: bool = True) -> str:
    """Where peers are told to call."""
    (folder / "posthouse.toml").write_text(settings, encoding="utf-8")
    seen: list[Service] = []

    def doors(service: Service) -> list[DoorAddress]:
        seen.append(service)
        service.desk._loop.call_later(0.01, os.kill, os.getpid(), 15)
        return [DoorAddress(LineDoor(service, "admin"), "127.0.0.1", 0)] if listening else []

    run(Options(folder, name="ALPHA", ports=PortSet.EPHEMERAL), doors)
    return seen[0].started.manager.transactions.coordinator.url


def test_peers_call_the_admin_endpoint_unless_the_settings_name_another(tmp_path: Path) -> None:
    assert urls(tmp_path, "").startswith("http://127.0.0.1:")
    named = '[transactions]\nurl = "https://Alpha.example.com"'
    assert urls(tmp_path, named) == "https://alpha.example.com:8816"
    assert urls(tmp_path, "", listening=False) == ""


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ('url = "alpha"', "url: .*not an address"),
        ('peer_authorities = "missing.pem"', "peer_authorities cannot be used"),
    ],
)
def test_settings_that_cannot_be_used_keep_it_from_starting(
    tmp_path: Path, settings: str, why: str
) -> None:
    with pytest.raises(NotStarted, match=why):
        urls(tmp_path, f"[transactions]\n{settings}")
