"""What a checkpoint has, and its way to another group and another name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from posthouse.cli import main
from posthouse.model.errors import InvalidParameter, SharingViolation
from posthouse.spark import checkpoints, settle
from posthouse.spark.checkpoint_tools import (
    checkpoint_content,
    move_checkpoint,
    rebase_checkpoint,
)
from posthouse.spark.lakes.disk import locked
from posthouse.spark.limits import Limits
from posthouse.spark.offsets import offset_of
from posthouse.spark.options import source_options
from posthouse.spark.stream_planner import Course
from tests.spark.change_servers import Server, ServerThread
from tests.spark.model_spark import Checkpoint

A = "ALPHA\\private$\\a"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    thread = ServerThread()
    made = Server(thread, tmp_path / "alpha", "ALPHA")
    made.create("a")
    yield made
    made.stop()
    thread.close()


@pytest.fixture
def log(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path / "checkpoint")


def options(server: Server, **more: str) -> dict[str, str]:
    access = {"url": server.url, "tokenFile": str(server.token_file), "retryFor": "5"}
    return {**access, "queue": ".\\private$\\a", **more}


def run(server: Server, log: Checkpoint, *, fails: bool = False, **more: str) -> list[int]:
    """What is there, in one batch; `fails`: its sink does. Returns from where to where it goes."""
    course = Course(source_options(options(server, **more)))
    try:
        course.begin()
        last = log.last("commits")
        start = offset_of(log.offset(last)) if last >= 0 else course.first()
        end = course.next(start, Limits())
        assert end is not None
        log.plan(last + 1, end.to_json())
        course.portions(start, end)
        if not fails:
            log.commit(last + 1)
            course.commit(end)
        return [start.queues[A], end.queues[A]]
    finally:
        course.close()


CONSUMES = {"consume": "onCommit", "group": "g"}


def test_a_stream_that_looked_goes_on_to_consume_with_the_same_checkpoint(
    server: Server, log: Checkpoint
) -> None:
    server.send("a", [b"1", b"2"])
    assert run(server, log) == [0, 2]
    server.send("a", [b"3"])
    refusal = r"checkpoint rebase CHECKPOINT --group g"
    with pytest.raises(InvalidParameter, match=refusal):
        run(server, log, fails=True, **CONSUMES)
    (log.path / "offsets" / "1").unlink()
    access = ("g", server.url, str(server.token_file))
    # The refused stream has made the group.
    (shown,) = rebase_checkpoint(log.path, *access, dry_run=True)
    assert (shown.queue, shown.before, shown.position) == (A, 0, 2)
    assert rebase_checkpoint(log.path, *access) == [shown]
    assert run(server, log, **CONSUMES) == [2, 3]
    assert server.bodies("a") == [b"1", b"2"]
    (new,) = rebase_checkpoint(log.path, "other", *access[1:])
    assert (new.before, new.position) == (None, 3)
    server.send("a", [b"4"])
    assert run(server, log, consume="onCommit", group="other") == [3, 4]


def test_a_group_that_is_in_use_or_further_is_left_as_it_is(
    server: Server, log: Checkpoint
) -> None:
    server.send("a", [b"1"])
    run(server, log)
    access = ("g", server.url, str(server.token_file))
    reader = Course(source_options(options(server, **CONSUMES)))
    reader.begin()
    with pytest.raises(SharingViolation, match="a reader at work"):
        rebase_checkpoint(log.path, *access)
    end = reader.next(reader.first(), Limits())
    assert end is not None
    reader.portions(reader.first(), end)
    reader.close()
    with pytest.raises(SharingViolation, match="claims"):
        rebase_checkpoint(log.path, *access)
    server.send("a", [b"2"])
    other = Checkpoint(log.path.with_name("other"))
    assert run(server, other, **CONSUMES) == [0, 1]  # the batch that was claimed
    assert run(server, other, **CONSUMES) == [1, 2]
    with pytest.raises(InvalidParameter, match="up to lookup id 2, and the checkpoint has read up"):
        rebase_checkpoint(log.path, *access)


def test_a_checkpoint_of_another_queue_is_no_position(server: Server, log: Checkpoint) -> None:
    server.send("a", [b"1"])
    run(server, log)
    server.make_again("a")
    with pytest.raises(Exception, match="deleted and made again"):
        rebase_checkpoint(log.path, "g", server.url, str(server.token_file))


def test_a_name_is_changed_in_a_checkpoint_that_is_at_rest(server: Server, log: Checkpoint) -> None:
    server.send("a", [b"1"])
    run(server, log)
    (log.path / "offsets" / ".0.crc").write_bytes(b"of the old text")
    found = move_checkpoint(log.path, "ALPHA", "BETA")
    assert [one.queue for one in found.positions] == ["BETA\\private$\\a"]
    assert [path.name for path in (log.path / "offsets").iterdir()] == ["0"]
    with pytest.raises(InvalidParameter, match=r"has no queue of ALPHA. Its computers are BETA"):
        move_checkpoint(log.path, "ALPHA", "GAMMA")
    with pytest.raises(InvalidParameter, match="has queues of BETA, too"):
        move_checkpoint(log.path, "BETA", "BETA")
    move_checkpoint(log.path, "BETA", "ALPHA")
    server.send("a", [b"2"])
    assert run(server, log, fails=True) == [1, 2]
    with pytest.raises(InvalidParameter, match=r"batch 1 of .* was begun and is not done"):
        move_checkpoint(log.path, "ALPHA", "BETA")
    running = pytest.raises(SharingViolation, match="an archive with this checkpoint runs")
    with locked(log.path.with_name("checkpoint.lock"), "held"), running:
        move_checkpoint(log.path, "ALPHA", "BETA")


def test_a_checkpoint_that_was_moved_reads_nothing_again(server: Server, log: Checkpoint) -> None:
    """Spark compares texts: another text of the same offset would be a batch."""
    server.send("a", [b"1"])
    run(server, log)
    entry = log.path / "offsets" / "0"
    before = entry.read_text()
    move_checkpoint(log.path, "ALPHA", "BETA")
    move_checkpoint(log.path, "BETA", "ALPHA")
    assert entry.read_text() == before
    course = Course(source_options(options(server)))
    try:
        course.begin()
        same = offset_of(log.offset(0))
        assert course.portions(same, offset_of(log.offset(0))) == []
        assert course.portions(course.first(), same)
    finally:
        course.close()


def test_a_move_that_is_cut_off_leaves_a_checkpoint_that_opens(
    server: Server, log: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checksum of the old text must never lie beside the new one."""
    server.send("a", [b"1"])
    run(server, log)
    entry, checksum = log.path / "offsets" / "0", log.path / "offsets" / ".0.crc"
    texts = {name: entry.read_text().replace("ALPHA", name) for name in ("ALPHA", "BETA")}
    steps = [(Path, "write_text"), (checkpoints, "_sync"), (Path, "unlink"), (Path, "replace")]
    for owner, name in steps:
        checksum.write_bytes(b"of the old text")
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, Mock(side_effect=EOFError))
            with pytest.raises(EOFError):
                move_checkpoint(log.path, "ALPHA", "BETA")
        assert entry.read_text() == texts["ALPHA"]
        assert checkpoint_content(log.path).positions[0].queue == A
    move_checkpoint(log.path, "ALPHA", "BETA")
    assert entry.read_text() == texts["BETA"]
    assert not checksum.exists()


def test_a_group_that_others_have_read_with_is_left_as_it_is(
    server: Server, log: Checkpoint
) -> None:
    """Its reader would miss what lies between."""
    server.send("a", [b"1"])
    other = Checkpoint(log.path.with_name("other"))
    assert run(server, other, **CONSUMES) == [0, 1]
    settle(other.path, server.url, str(server.token_file))
    server.send("a", [b"2"])
    assert run(server, log) == [0, 2]
    access = (server.url, str(server.token_file))
    with pytest.raises(InvalidParameter, match="its reader would miss what lies up to 2"):
        rebase_checkpoint(log.path, "g", *access)
    assert run(server, other, **CONSUMES) == [1, 2]


def test_a_group_is_placed_under_the_name_of_today(server: Server, log: Checkpoint) -> None:
    server.send("a", [b"1"])
    run(server, log)
    server.rename("BETA")
    (placed,) = rebase_checkpoint(log.path, "g", server.url, str(server.token_file))
    assert (placed.queue, placed.position) == ("BETA\\private$\\a", 1)


def test_a_checkpoint_that_was_put_back_is_told_of(
    server: Server, log: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    server.send("a", [b"1"])
    run(server, log, group="g")
    server.send("a", [b"2"])
    assert run(server, log, group="g") == [1, 2]
    assert "is read again" not in caplog.text
    for part in ("offsets", "commits"):
        (log.path / part / "1").unlink()
    assert run(server, log, group="g") == [1, 2]
    assert caplog.text.count("the group g is at lookup id 2, and this checkpoint has read up") == 1


def test_the_commands_do_the_same(
    server: Server, log: Checkpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    server.send("a", [b"1"])
    run(server, log)
    words = ["pipeline", "checkpoint"]
    assert main.run([*words, "show", str(log.path), "--json"]) == main.DONE
    told = json.loads(capsys.readouterr().out)
    assert (told["queue"], told["position"], told["committed"]) == (A, 1, 0)
    access = ["--url", server.url, "--token-file", str(server.token_file)]
    rebase = [*words, "rebase", str(log.path), "--group", "g", "--json", *access]
    for more in (["--dry-run"], [], []):
        assert main.run([*rebase, *more]) == main.DONE
    told_all = [json.loads(line)["before"] for line in capsys.readouterr().out.splitlines()]
    assert told_all == [None, None, 1]
    move = [*words, "move", str(log.path), "--from", "ALPHA", "--to", "BETA"]
    assert main.run(move) == main.DONE
    assert main.run([*words, "show", str(log.path)]) == main.DONE
    assert "BETA\\private$\\a" in capsys.readouterr().out
    assert main.run([*words, "show", str(log.path.parent / "none")]) == main.REFUSED
