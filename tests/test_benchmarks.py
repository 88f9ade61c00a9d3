"""The benchmarks run, say all they promise, and leave nothing behind. No figure is judged here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import backlog, candidates, engine, flat, latency, place, remote, samples, store
from benchmarks.figures import (
    Column,
    Goal,
    Measurement,
    Outcome,
    Table,
    hundredths,
    median_ratio,
    percentile,
)
from benchmarks.home import QUEUE, Home, Turn, receive_call, send_call
from benchmarks.meters import deep_size, directory_bytes
from benchmarks.peers.work import WORKS
from benchmarks.pipeline import run_pipelined
from benchmarks.report import print_outcome
from benchmarks.witness import NotSynced, WitnessDisk
from posthouse.runtime.driver import Answer
from tests.conftest import SOAK

ROOT = Path(__file__).parent.parent
COMMAND = [sys.executable, "-m", "benchmarks"]
PLAIN: dict[str, Any] = {"cwd": ROOT, "capture_output": True, "text": True}
Figures = dict[tuple[str, str], list[dict[str, Any]]]

TABLES = {
    ("store", "disk"),
    ("store", "rates"),
    ("store", "goals"),
    ("engine", "disk"),
    ("engine", "rates"),
    ("engine", "goals"),
    ("backlog", "rates"),
    ("backlog", "memory"),
    ("backlog", "starts"),
    ("backlog", "disk"),
    ("backlog", "goals"),
    ("flat", "curve"),
    ("flat", "outgoing"),
    ("flat", "goals"),
    ("remote", "rates"),
    ("remote", "goals"),
    ("srmp", "rates"),
    ("srmp", "goals"),
    ("pgm", "rates"),
    ("pgm", "goals"),
    ("qms", "rates"),
    ("qms", "long"),
    ("qms", "goals"),
    ("directory", "lookups"),
    ("directory", "goals"),
    ("formats", "rates"),
    ("formats", "goals"),
}
if SOAK:  # it starts fifty processes; `test_peer_benchmarks.py` has its rounds
    TABLES.add(("server", "rates"))


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Figures:
    """What a quick run of everything but Spark printed, by benchmark and table."""
    directory = tmp_path_factory.mktemp("bench")
    done = subprocess.run(
        [
            *COMMAND,
            "--quick",
            "--json",
            "--directory",
            str(directory),
            *sorted({n for n, _ in TABLES}),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert list(directory.iterdir()) == []
    machine, *lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert machine["benchmark"] == "machine"
    assert str(directory) in machine["disk"]
    found: Figures = {}
    for line in lines:
        found.setdefault((line.pop("benchmark"), line.pop("table")), []).append(line)
    return found


def test_a_quick_run_prints_every_table(figures: Figures) -> None:
    assert figures.keys() == TABLES


def test_every_store_is_measured_with_every_batch(figures: Figures) -> None:
    rows = figures["store", "rates"]
    assert [(r["operation"], r["batch"], r["candidate"]) for r in rows] == [
        (operation, batch, name)
        for operation in store.OPERATIONS
        for batch in store.BATCHES
        for name in candidates.CANDIDATES
    ]
    assert [r["size_kib"] for r in figures["store", "disk"]] == list(latency.SIZES_KIB)


def test_every_case_of_the_engine_is_measured(figures: Figures) -> None:
    rows = {row["case"]: row for row in figures["engine", "rates"]}
    assert list(rows) == [case.name for case in engine.CASES]
    assert rows["send one at a time"]["p99_ms"] >= rows["send one at a time"]["p50_ms"] > 0
    for case in engine.CASES:
        syncs = rows[case.name]["syncs_per_group"]
        if case.syncs is engine.Syncs.NEVER:  # but numbers are reserved in blocks, durably
            assert syncs < 1, case.name
        else:
            assert syncs >= (1 if case.syncs is engine.Syncs.EACH_TURN else 0.01), case.name


@pytest.mark.soak
def test_every_workload_of_the_server_is_measured(figures: Figures) -> None:
    rows = figures["server", "rates"]
    cases = list(dict.fromkeys(row["case"] for row in rows))
    assert cases == [words for w in WORKS for words in (w.sending, w.receiving) if words]
    assert {row["case"] for row in rows if row["peer"] == "Posthouse"} == set(cases)
    others = {"Posthouse, MS-MQQB", "Posthouse, two managers"}
    assert {row["peer"] for row in rows} == {"Posthouse"} | others


@pytest.mark.parametrize("curve", ["curve", "outgoing"])
def test_the_curve_has_every_length(figures: Figures, curve: str) -> None:
    assert [row["waiting"] for row in figures["flat", curve]] == list(flat.SIZES_QUICK)
    assert figures["flat", curve][0]["ratio"] == 1


def test_every_way_to_receive_from_afar_is_measured(figures: Figures) -> None:
    rows = figures["remote", "rates"]
    assert [row["case"] for row in rows] == [case.name for case in remote.CASES]
    assert all(row["rate_per_s"] > 0 for row in rows)
    assert len(figures["remote", "goals"]) == 2


def test_a_start_is_longer_than_its_parts(figures: Figures) -> None:
    whole, python, recover = figures["backlog", "starts"]
    assert whole["warm_s"] > python["warm_s"]
    assert whole["warm_s"] > recover["warm_s"]
    filled, drained = figures["backlog", "rates"]
    assert filled["messages"] < backlog.COUNT_QUICK <= drained["messages"]


def test_all_figures_are_there_and_positive(figures: Figures) -> None:
    for table, rows in figures.items():
        for row in rows:
            assert row.keys() == rows[0].keys(), table
            for key, value in row.items():
                if isinstance(value, int | float) and key not in ("at_most", "syncs_per_group"):
                    assert value > 0, (table, row)


def test_goals_have_a_verdict(figures: Figures) -> None:
    goals = [row for (_, table), rows in figures.items() if table == "goals" for row in rows]
    assert len(goals) == 19
    assert {goal["verdict"] for goal in goals} <= {"aim reached", "reached", "not reached"}


@pytest.mark.parametrize("arguments", [["nonsense"], ["--directory", "/nonexistent"]])
def test_wrong_usage_is_told(arguments: list[str]) -> None:
    done = subprocess.run([*COMMAND, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert arguments[-1] in done.stderr


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("name", ["store", "backlog"])
def test_an_interrupted_run_leaves_nothing_behind(
    name: str, ending: signal.Signals, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [*COMMAND, "--json", "--directory", str(tmp_path), name],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert "machine" in json.loads(process.stdout.readline())
        assert list(tmp_path.iterdir())
        process.send_signal(ending)
        _, errors = process.communicate()
    assert process.returncode == 130
    assert errors == "Interrupted; everything written was removed.\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("ends", "why"),
    [
        ("print('{}', file=sys.stderr); sys.exit(3)", "(exit code 3): {}"),
        ("os.kill(os.getpid(), 9)", "(SIGKILL): it printed no reason"),
    ],
)
def test_a_client_that_is_gone_when_it_is_to_begin_ends_the_run_with_a_message(
    ends: str, why: str, tmp_path: Path
) -> None:
    """Writing to it fails as writing to closed output does, which command lines pass over."""
    client = f"import os, sys; print('{{\"ready\": 1}}', flush=True); {ends}"
    done = subprocess.run([sys.executable, "-c", RUN, client, str(tmp_path)], **PLAIN)
    assert done.returncode == 1
    assert done.stderr == f"The run broke off: the process for 'send' ended early {why}\n"


RUN = """
import sys
from pathlib import Path
from benchmarks.command import measured_place, run_command
from benchmarks.processes import Child, started

def begin(client: str, directory: Path) -> None:
    with (
        measured_place(directory, quick=True, json=False),
        started([sys.executable, "-c", client]) as process,
    ):
        child = Child("send", process, 0)
        child.report("ready")
        process.wait()
        child.tell("go")

run_command(begin, "begin")
"""


@pytest.mark.parametrize("reason", ["BrokenPipeError(32, 'Broken pipe')", "OSError(28, 'full')"])
def test_an_error_of_the_system_ends_the_run_with_a_message(reason: str) -> None:
    program = RUN.partition("def begin")[0] + FAILS.format(reason=reason)
    done = subprocess.run([sys.executable, "-c", program], **PLAIN)
    assert done.returncode == 1
    assert done.stderr.startswith("The run broke off: [Errno ")


FAILS = """
def begin() -> None:
    with measured_place(None, quick=True, json=False):
        raise {reason}

run_command(begin, "begin")
"""


# -- figures


def test_ratios_are_made_inside_a_round() -> None:
    ours = [Measurement(100, wall, wall) for wall in (1.0, 10.0, 2.0)]
    theirs = [Measurement(100, 2 * m.wall_s, m.wall_s) for m in ours]
    assert median_ratio(ours, theirs) == 2
    assert Measurement(100, 2.0, 0.5).rate == 50
    assert Measurement(100, 2.0, 0.5).cpu_us == 5000


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([1.0], 0.99) == 1.0
    assert percentile([float(n) for n in range(1000)], 0.99) == 990.0


@pytest.mark.parametrize(
    ("value", "at_most", "verdict"),
    [
        (9, False, "not reached"),
        (10, False, "reached"),
        (20, False, "aim reached"),
        (21, True, "not reached"),
        (20, True, "reached"),
        (10, True, "aim reached"),
    ],
)
def test_verdicts(value: float, at_most: bool, verdict: str) -> None:
    required, aim = (20, 10) if at_most else (10, 20)
    assert Goal("b", "g", value, required, aim, at_most=at_most).verdict == verdict


def test_a_table_shows_words_left_numbers_right_and_goals_behind(
    capsys: pytest.CaptureFixture[str],
) -> None:
    columns = [Column("case", "case"), Column("ratio", "times", hundredths)]
    table = Table("b", "t", "b: a title longer than the table", columns, note="and a note")
    table.rows = [{"case": "one", "ratio": 1.0}, {"case": "other", "ratio": None}]
    print_outcome(Outcome([table], [Goal("b", "speed", 3, 2, unit="m/s")]), json=False)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[:5] == [
        "b: a title longer than the table",
        "case   times",
        "one     1.00",
        "other",
        "and a note",
    ]
    assert lines[-2].split() == ["speed,", "m/s", "3.00", "at", "least", "2.00", "reached"]


# -- what the figures stand on


def test_a_write_without_its_sync_is_noticed(tmp_path: Path) -> None:
    disk = WitnessDisk(tmp_path)
    log, other = disk.open("00000001.log", create=True), disk.open("checkpoint-1", create=True)
    log.write([b"one"], 0)
    other.write([b"never synced, and need not be"], 0)
    with pytest.raises(NotSynced, match=r"write 1 to 00000001\.log"):
        disk.require_synced(disk.writes)
    log.sync()
    disk.require_synced(disk.writes)
    log.write([b"two"], 3)
    disk.require_synced(1)
    with pytest.raises(NotSynced):
        disk.require_synced(disk.writes)
    log.close()
    with pytest.raises(NotSynced):
        disk.require_synced(disk.writes)
    assert (disk.writes, disk.syncs) == (2, 1)


def test_an_answer_before_its_sync_ends_the_run(tmp_path: Path) -> None:
    disk = WitnessDisk(tmp_path)
    log = disk.open("00000001.log", create=True)
    log.write([b"one"], 0)
    turn = Turn(disk)
    with pytest.raises(NotSynced):
        turn(Answer(None, None, ()))
    log.sync()
    turn(Answer(None, None, ()))
    assert len(turn.answers) == 1


def test_overlapped_turns_answer_everything_in_order(tmp_path: Path) -> None:
    home = Home(tmp_path)
    handles, sample = home.create(QUEUE), samples.packets(64)
    assert run_pipelined(home, [send_call(handles, [packet]) for packet in sample]) == 64
    assert home.waiting(QUEUE) == 64
    (answer,) = home.turn(receive_call(handles, 64))
    assert [packet[-1024:] for packet in answer.packets] == [packet[-1024:] for packet in sample]
    assert run_pipelined(home, []) == 0
    home.close()


@pytest.mark.parametrize("name", candidates.CANDIDATES)
def test_every_candidate_keeps_what_it_is_given(name: str, tmp_path: Path) -> None:
    candidate = candidates.CANDIDATES[name](tmp_path)
    candidate.insert(1, 20)
    candidate.insert(21, 1)
    candidate.remove(1, 5)
    assert candidate.count() == 16
    candidate.close()
    assert directory_bytes(tmp_path) > 16 * 1024


def test_memory_is_added_up_once_for_each_object() -> None:
    block = bytearray(1000)
    assert deep_size([block, block]) == deep_size([block, []]) - deep_size([])
    assert 1000 <= deep_size([block]) - deep_size([]) < 1100
    assert deep_size(Path, os) == 0


def test_the_disk_of_a_directory_is_named(tmp_path: Path) -> None:
    mount = place.mount_of(tmp_path)
    assert tmp_path.is_relative_to(mount.point)
    assert mount.kind != "unknown"
    assert len(set(map(samples.body_of, range(1000)))) == 1000
