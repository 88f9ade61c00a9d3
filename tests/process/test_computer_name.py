"""The computer name is kept in the home, over starts, restores and renames."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import posthouse
from posthouse.engine.machine.computer_name import OtherComputerName
from tests.process.serving import Serving

QUEUE = r".\private$\orders"
COMMAND_S = 60


def command(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "posthouse.cli.main", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def lines(*words: str | Path) -> list[Any]:
    done = command(*words, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_restored_home_and_the_first_one_keep_their_name(tmp_path: Path) -> None:
    """What a new user met: `serve` without --name gave the home the host's name."""
    backup, restored = tmp_path / "backup", tmp_path / "restored" / "home"
    with Serving(tmp_path, "--name", "ALPHA") as first:
        first.ready()
        with posthouse.connect(home=first.home) as qm:
            qm.create_queue(QUEUE).send(b"one", recoverable=True)
        lines("backup", backup, "--home", first.home)
    with Serving(tmp_path) as again:
        assert again.ready()["name"] == "ALPHA"
        with posthouse.connect(home=again.home) as qm:
            assert qm.queue(r"ALPHA\private$\orders").count() == 1
    restored.parent.mkdir()
    done = command("restore", backup, "--home", restored)
    assert f"Start it as ALPHA with: posthouse serve --home {restored}" in done.stdout
    with Serving(restored.parent) as second:
        assert second.ready()["name"] == "ALPHA"
        with posthouse.connect(home=second.home) as qm:
            orders = qm.queue(r"ALPHA\private$\orders")
            orders.send(b"two")
            assert [orders.receive(timeout=0).body for _ in range(2)] == [b"one", b"two"]


def test_another_name_is_refused_with_the_way_to_rename(tmp_path: Path) -> None:
    with Serving(tmp_path, "--name", "ALPHA") as first:
        first.ready()
        with posthouse.connect(home=first.home) as qm:
            qm.create_queue(QUEUE).send(b"express")
        live = command("rename", "BETA", "--home", first.home)
        assert live.returncode == 1
        assert "is in use by another queue manager" in live.stderr
    with Serving(tmp_path, "--name", "BETA") as refused:
        assert refused.wait() == 1
        said = refused.errors.read_text()
        assert f"the home {refused.home} belongs to the computer ALPHA" in said
        assert f"posthouse rename BETA --home {refused.home}" in said
        assert "Traceback" not in said
    (renamed,) = lines("rename", "BETA", "--home", first.home)
    assert (renamed["old"], renamed["name"], renamed["queues"]) == ("ALPHA", "BETA", 1)
    assert 'aliases = ["ALPHA"]' in renamed["notes"][0]
    with Serving(tmp_path) as started:
        assert started.ready()["name"] == "BETA"
        with posthouse.connect(home=started.home) as qm:
            # The refusal and the rename stopped cleanly: an express message is still there.
            assert qm.queue(r"BETA\private$\orders").receive(timeout=0).body == b"express"


def test_a_copied_home_is_the_same_computer(tmp_path: Path) -> None:
    with posthouse.open(tmp_path / "one", name="ALPHA") as qm:
        qm.create_queue(QUEUE)
    shutil.copytree(tmp_path / "one", tmp_path / "two" / "home")
    with Serving(tmp_path / "two") as copy:
        assert copy.ready()["name"] == "ALPHA"


def test_an_embedded_queue_manager_follows_the_same_rule(tmp_path: Path) -> None:
    with posthouse.open(tmp_path, name="ALPHA") as qm:
        qm.create_queue(QUEUE).send(b"express")
    with pytest.raises(OtherComputerName, match="posthouse rename BETA"):
        posthouse.open(tmp_path, name="BETA")
    with posthouse.open(tmp_path, name="alpha") as qm:
        assert qm.status().name == "ALPHA"
        assert qm.queue(QUEUE).receive(timeout=0).body == b"express"
    with posthouse.open(tmp_path) as qm:
        assert qm.status().name == "ALPHA"


def test_a_damaged_store_and_wrong_settings_are_told_and_nothing_is_renamed(tmp_path: Path) -> None:
    with posthouse.open(tmp_path, name="ALPHA") as qm:
        qm.create_queue(QUEUE).send(b"one", recoverable=True)
    settings = tmp_path / "bad.toml"
    settings.write_text("[queue_manager\n")
    wrong = command("rename", "BETA", "--home", tmp_path, "--config", settings)
    assert wrong.returncode == 2
    assert wrong.stderr.startswith(f"{settings}: not TOML")
    (log,) = (tmp_path / "store").glob("*.log")
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 0xFF
    log.write_bytes(content)
    damaged = command("rename", "BETA", "--home", tmp_path)
    assert (damaged.returncode, damaged.stdout) == (1, "")
    assert damaged.stderr.startswith("Not renamed: the store is damaged: ")
    assert f"posthouse doctor --store {tmp_path}" in damaged.stderr
    assert "Traceback" not in wrong.stderr + damaged.stderr
    assert log.read_bytes() == content
