"""`posthouse receive` as a process of its own that is killed, or whose disk is full.

After each of these a message is in its queue, or whole in a file, or both; never in neither.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import posthouse
from tests.client.serving import Serving, serving

QUEUE = "./private$/orders"
BODY = b"\x00\xff" * 60_000
RECEIVE = [sys.executable, "-m", "posthouse.cli.main", "receive", QUEUE]
SEND = [sys.executable, "-m", "posthouse.cli.main", "send", QUEUE]
KILLED = -9


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("home") / "alpha") as running:
        with posthouse.connect(running.home) as qm:
            qm.create_queue(QUEUE)
        yield running


@pytest.fixture
def queue(server: Serving) -> Iterator[posthouse.Queue]:
    with posthouse.connect(server.home) as qm:
        queue = qm.queue(QUEUE)
        queue.purge()
        queue.send(BODY)
        yield queue


def run(server: Serving, command: list[str], **how: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"POSTHOUSE_HOME": str(server.home)}
    return subprocess.run(command, env=environment, timeout=60, text=True, **how)  # type: ignore[call-overload, no-any-return]


@pytest.mark.peer("strace")
@pytest.mark.parametrize(("sync", "files"), [(1, [".body"]), (2, None), (3, [".body", ".json"])])
def test_a_reader_that_is_killed_while_it_syncs_leaves_the_message_in_the_queue(
    server: Serving, queue: posthouse.Queue, tmp_path: Path, sync: int, files: list[str] | None
) -> None:
    """The first sync is of the body, the second of its properties, the third of the folder."""
    inject = f"inject=fsync:signal=KILL:when={sync}"
    strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync", "-e", inject]
    killed = run(server, [*strace, *RECEIVE, "--out", str(tmp_path)], capture_output=True)
    assert (killed.returncode, killed.stdout) == (KILLED, "")
    assert queue.receive(30).body == BODY, "it goes back when the server sees the broken session"
    there = sorted(file.suffix for file in tmp_path.iterdir())
    assert there == (files or [".body", ".partial"])


@pytest.mark.peer("tmpfs")
def test_a_full_disk_leaves_the_message_in_the_queue_and_no_file(
    server: Serving, queue: posthouse.Queue, tmp_path: Path
) -> None:
    queue.send(b"small")
    size = ["mount", "-t", "tmpfs", "-o", "size=64k", "posthouse", str(tmp_path)]
    subprocess.run(size, check=True)
    try:
        done = run(server, [*RECEIVE, "--count", "2", "--out", str(tmp_path)], capture_output=True)
        left = list(tmp_path.iterdir())
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)
    assert (done.returncode, done.stdout, left) == (1, "", [])
    said, cause = done.stderr.splitlines()
    assert said == "The message could not be written; it stays in the queue."
    assert cause.endswith(".body: No space left on device")
    assert [message.body for message in queue.receive_many(9, 30)] == [BODY, b"small"]


def test_a_file_that_may_not_grow_leaves_the_message_in_the_queue(
    server: Serving, queue: posthouse.Queue, tmp_path: Path
) -> None:
    limited = ["bash", "-c", 'ulimit -f 8; exec "$@"', "-", *RECEIVE, "--out", str(tmp_path)]
    done = run(server, limited, capture_output=True)
    assert (done.returncode, list(tmp_path.iterdir())) == (1, [])
    assert "File too large" in done.stderr
    assert queue.receive(30).body == BODY


def test_a_full_output_ends_without_a_traceback(server: Serving, queue: posthouse.Queue) -> None:
    with Path("/dev/full").open("w") as full:
        done = run(server, [*RECEIVE, "--raw"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert done.stderr.splitlines()[1:] == ["standard output: No space left on device"]
    assert queue.receive(30).body == BODY


def test_a_closed_output_is_an_error_and_leaves_the_message_in_the_queue(
    server: Serving, queue: posthouse.Queue
) -> None:
    closed = ["bash", "-c", 'exec "$@" >&-', "-"]
    done = run(server, [*closed, *RECEIVE, "--raw"], stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert done.stderr.splitlines()[1:] == ["standard output: Bad file descriptor"]
    assert queue.receive(30).body == BODY
    done = run(server, [*closed, *SEND, "--body", "x"], stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (1, "standard output: Bad file descriptor\n")
    assert queue.receive(30).body == b"x", "it was sent; its identifier could not be printed"


def test_a_closed_input_is_empty(server: Serving, queue: posthouse.Queue) -> None:
    closed = ["bash", "-c", 'exec "$@" <&-', "-"]
    refused = run(server, [*closed, *SEND], capture_output=True)
    assert (refused.returncode, queue.count()) == (2, 1)
    assert "the message has no body" in refused.stderr
    for option in ("--lines", "--body-file"):
        done = run(server, [*closed, *SEND, option, "-"], capture_output=True)
        assert (done.returncode, done.stderr) == (0, "")
