"""`posthouse serve` as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from posthouse.engine.queues.open_queues import QueueAccessType
from posthouse.model.message import DeliveryGuarantee, Message
from posthouse.model.properties import QueueProperties
from posthouse.runtime.embedded import EmbeddedQueueManager
from tests.process.serving import START_S, STOP_S, Serving

QUEUE = r".\private$\orders"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_when_it_is_ready_and_stops_when_it_is_told(
    tmp_path: Path, number: signal.Signals
) -> None:
    with Serving(tmp_path, "--name", "ALPHA") as serving:
        ready = serving.ready()
        assert ready["pid"] == serving.process.pid
        assert (ready["name"], ready["home"]) == ("ALPHA", str(serving.home))
        assert len(ready["guid"]) == 36
        assert serving.home.stat().st_mode & 0o777 == 0o700
        check_limits(serving.process.pid)
        assert serving.stop(number) == 0
        assert not serving.ready_file.exists()
        events = [line.split()[2] for line in serving.log().splitlines()]
        if events[0] == "few_files_allowed":  # as on machines with a low hard limit
            del events[0]
        assert events == ["store_created", "started", "stopping", "stopped"]
    for path in serving.home.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    with EmbeddedQueueManager(serving.home, name="ALPHA") as manager:
        assert manager.recovered.clean


def test_who_starts_it_at_a_terminal_sees_where_it_listens(tmp_path: Path) -> None:
    """A service, whose output is not a terminal, prints nothing."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "posthouse.cli.main", "serve", "--home", str(tmp_path)]
    with subprocess.Popen(
        [*command, "--name", "ALPHA", "--ports", "ephemeral"], stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        with os.fdopen(ours, encoding="utf-8") as terminal:
            lines = list(iter(terminal.readline, "Ctrl-C stops it.\n"))
            process.terminate()
            assert process.wait(STOP_S) == 0
    assert lines[0].startswith("ALPHA is ready: ")
    shown = dict(line.split(maxsplit=1) for line in lines[1:])
    assert shown["home"] == f"{tmp_path}\n"
    assert shown["log"] == f"{tmp_path / 'logs' / 'posthouse.log'}\n"
    assert shown["admin"].startswith("127.0.0.1:")


def test_a_second_process_on_a_home_is_refused(tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    with Serving(tmp_path) as first:
        first.ready()
        with Serving(tmp_path / "second", "--home", str(first.home)) as second:
            assert second.wait() == 1
            said = second.errors.read_text()
            assert f"the home {first.home} is in use by another queue manager" in said
            assert "Traceback" not in said
            assert not second.ready_file.exists()


def test_a_process_that_was_killed_is_followed_by_the_next(tmp_path: Path) -> None:
    with Serving(tmp_path, "--name", "ALPHA") as serving:
        guid = serving.ready()["guid"]
        serving.process.kill()
        serving.wait()
    serving.ready_file.unlink()
    with Serving(tmp_path, "--name", "ALPHA") as serving:
        assert serving.ready()["guid"] == guid


def test_a_wrong_setting_is_refused_with_file_and_nearest_name(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    config = tmp_path / "home" / "posthouse.toml"
    config.write_text("[store]\nsegmnt_size = '1MiB'\nopen_files = 0\n")
    with Serving(tmp_path) as serving:
        assert serving.wait() == 2
        first, second = json.loads(serving.errors.read_text())["error"]["cause"].splitlines()
        assert first.startswith(f"{config}: [store] segmnt_size: there is no such setting")
        assert "segment_size" in first
        assert "whole number, 16 to 100,000" in second
    assert not (tmp_path / "home" / "store").exists()


def test_a_damaged_store_is_refused_with_the_remedy_and_left_as_it_is(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with EmbeddedQueueManager(home, name="ALPHA") as manager:
        manager.create_queue(QUEUE, QueueProperties())
        sender = manager.open(QUEUE, QueueAccessType.SEND)
        for _ in range(20):
            manager.send(
                sender, Message(body=b"x", delivery_guarantee=DeliveryGuarantee.RECOVERABLE)
            )
    (home / "posthouse.toml").write_text('[store]\ndamage = "refuse"\n')
    for checkpoint in (home / "store").glob("checkpoint-*"):
        checkpoint.unlink()
    (segment,) = (home / "store").glob("*.log")
    damaged = bytearray(segment.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    segment.write_bytes(damaged)
    before = {path: path.read_bytes() for path in (home / "store").iterdir()}
    with Serving(tmp_path) as serving:
        assert serving.wait() == 1
        said = serving.errors.read_text()
        assert segment.name in said
        assert f"posthouse doctor --store {home}" in said
        assert "Traceback" not in said
        assert " error not_started " in serving.log()
    assert {path: path.read_bytes() for path in (home / "store").iterdir()} == before


def test_the_service_manager_is_told(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(START_S)
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
        with Serving(tmp_path, "--name", "ALPHA", **environment) as serving:
            assert manager.recv(1000) == b"READY=1\nSTATUS=queue manager ALPHA"
            assert serving.ready_file.exists()
            assert {manager.recv(1000) for _ in range(3)} == {b"WATCHDOG=1"}
            serving.process.send_signal(signal.SIGTERM)
            while (said := manager.recv(1000)) == b"WATCHDOG=1":
                pass
            assert said == b"STOPPING=1\nSTATUS=stopping"
            assert serving.wait() == 0


def test_the_log_may_go_to_standard_error(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "home" / "posthouse.toml").write_text("[log]\nfile = ''\nformat = 'json'\n")
    with Serving(tmp_path) as serving:
        serving.ready()
        assert serving.stop() == 0
        assert '"event": "started"' in serving.errors.read_text()
    assert not (serving.home / "logs").exists()


def test_an_idle_server_uses_no_time(tmp_path: Path) -> None:
    """Nobody polls: between two looks the process is not scheduled."""
    with Serving(tmp_path) as serving:
        serving.ready()
        times = list[int]()
        while not times or times[-1] > 2:  # upkeep after the start comes to its end
            assert len(times) < 10, times
            before = switches(serving.process.pid)
            time.sleep(2)
            times.append(switches(serving.process.pid) - before)


def switches(pid: int) -> int:
    """How often a process gave up the processor."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                total += int(line.split()[1])
    return total


def check_limits(pid: int) -> None:
    """Many files may be open, and memory is not dumped."""
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    (files,) = [line for line in lines if line.startswith("Max open files")]
    soft, hard = files.split()[3:5]
    assert hard == "unlimited" or int(soft) >= min(int(hard), 10_000)
    (core,) = [line for line in lines if line.startswith("Max core")]
    assert core.split()[4] == "0"
