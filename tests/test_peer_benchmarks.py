"""The comparison with other queues: its driver of ours, its arithmetic, its proof. No timing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from benchmarks.peers import __main__ as command
from benchmarks.peers import client, contest, proof
from benchmarks.peers.contest import OURS, PEERS, Entrant, Leg, make_server, run_round
from benchmarks.peers.driver import Meter, make_driver
from benchmarks.peers.goals import TARGETS, goals, median_of_ratios
from benchmarks.peers.server import Command, Server, free_port, process_tree, serving
from benchmarks.peers.work import DURABLE, WORKS, Load, Mode, Work
from benchmarks.place import temporary_place
from benchmarks.witness import NotSynced

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Entrant]:
    """A server of ours, as the benchmarks start it."""
    with serving(make_server(OURS, tmp_path_factory.mktemp("peers"))) as server:
        yield Entrant(OURS, server)


# -- ours


@pytest.mark.parametrize("mode", Mode)
def test_what_our_driver_sends_it_receives(ours: Entrant, mode: Mode) -> None:
    driver, load = make_driver(OURS, ours.server.address), Load(mode, 250, 10)
    driver.prepare("driven", mode)
    sending, receiving = Meter(), Meter()
    driver.produce("driven", load, b"0123456789", sending)
    assert driver.consume("driven", load, receiving) == 2500
    laps = {Mode.SINGLE: 250, Mode.TRANSACTION: 3}
    assert len(sending.laps) == laps.get(mode, 0)
    assert sending.began < sending.ended <= receiving.began < receiving.ended
    driver.prepare("driven", mode)  # over the old one


def test_a_large_body_arrives_whole(ours: Entrant) -> None:
    driver, load = make_driver(OURS, ours.server.address), Load(Mode.PIPELINED, 2, WORKS[-1].size)
    driver.prepare("large", load.mode)
    driver.produce("large", load, os.urandom(load.size), Meter())
    assert driver.consume("large", load, Meter()) == 2 * load.size


@pytest.mark.parametrize("work", WORKS[:4], ids=lambda work: work.name)
def test_a_round_measures_every_leg_of_its_work(ours: Entrant, work: Work) -> None:
    legs = run_round(ours, work, Load(work.mode, 20, 100))
    assert list(legs) == [words for words in (work.sending, work.receiving) if words]
    for leg in legs.values():
        assert leg.wall_s > 0
        assert leg.server_cpu_s > 0
        assert leg.clients_cpu_s > 0
        assert (leg.p50_ms is not None) == (work.mode is Mode.SINGLE)


def test_a_client_that_fails_says_why(ours: Entrant) -> None:
    load = WORKS[1].load(quick=True)
    with client.client("consume", OURS, ours.server.address, "nowhere", load) as child:
        child.report("ready")
        child.tell("go")
        with pytest.raises(RuntimeError, match=r"(?s)consume posthouse.*QueueNotFound"):
            child.report("done")


def test_messages_that_do_not_come_end_the_run() -> None:
    class Forgetful:
        def consume(self, queue: str, load: Load, meter: Meter) -> int:
            return 9

    with pytest.raises(SystemExit, match="9 bytes came of 1 messages of 10"):
        client._consume(Forgetful(), "any", Load(Mode.PIPELINED, 1, 10), Meter())  # type: ignore[arg-type]


# -- syncs


@pytest.mark.peer("strace")
def test_our_acknowledgements_mean_a_sync(ours: Entrant, tmp_path: Path) -> None:
    proofs = proof.prove(ours, 3, tmp_path)
    assert len(proofs) == 5
    assert all(one.covered == one.groups == 3 for one in proofs)


def test_our_own_count_of_syncs_is_held_against_the_groups(ours: Entrant) -> None:
    before = ours.server.syncs()
    assert before is not None
    run_round(ours, WORKS[2], Load(Mode.SINGLE, 5, 100))
    assert (ours.server.syncs() or 0) >= before + 5
    with pytest.raises(NotSynced, match="4 syncs for 5 durable groups"):
        contest._require_syncs(ours, "produce", after=before + 4, before=before, groups=5)


TRACE = """\
7 100.000100 fdatasync(3) = 0 <0.000200>
7 100.001000 fdatasync(3) = -1 EIO (Input/output error) <0.000200>
8 100.002000 fdatasync(4 <unfinished ...>
7 100.002100 fsync(3 <unfinished ...>
8 100.002500 <... fdatasync resumed>) = 0 <0.000500>
7 100.002600 <... fsync resumed>) = -1 EIO (Input/output error) <0.000500>
7 100.003000 +++ exited with 0 +++
9 100.004000 msync(0x7f, 4096, MS_SYNC) = 0 <0.000100>
"""


def test_a_trace_is_read_with_its_interrupted_calls() -> None:
    syncs = proof.read_syncs(TRACE.splitlines())
    assert [(round(s.began, 6), round(s.ended, 6)) for s in syncs] == [
        (100.0001, 100.0003),
        (100.002, 100.0025),
        (100.004, 100.0041),
    ]


@pytest.mark.parametrize(
    ("waits", "covered", "inside"),
    [
        ([(100.0, 100.001)], 1, 1),
        ([(100.0002, 100.001)], 0, 0),  # begun before the group was
        ([(100.002, 100.0024)], 0, 0),  # not ended when it was acknowledged
        ([(100.0, 100.001), (100.001, 100.003), (100.003, 100.0035)], 2, 2),
        ([(99.0, 101.0)], 1, 3),
    ],
)
def test_a_sync_counts_only_inside_its_group(
    waits: list[tuple[float, float]], covered: int, inside: int
) -> None:
    assert proof.count(proof.read_syncs(TRACE.splitlines()), waits) == (covered, inside)


def test_a_group_without_its_sync_ends_the_run(
    ours: Entrant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsynced = [proof.Proof("durable send, pipelined", 5, 4, 9)]
    monkeypatch.setattr(proof, "_prove_mode", lambda *_: unsynced)
    with pytest.raises(NotSynced, match="pipelined: 1 of 5 groups"):
        proof.prove(ours, 5, tmp_path)


# -- figures


def leg(rate: float, cpu_us: float = 1.0, p50_ms: float | None = 1.0) -> Leg:
    return Leg(1000, 1024, 1000 / rate, cpu_us * 600e-6, cpu_us * 400e-6, p50_ms, p50_ms)


def test_a_leg_adds_up() -> None:
    one = leg(500.0, cpu_us=10.0)
    assert one.rate == 500
    assert one.megabytes == pytest.approx(0.512)
    assert (one.server_us, one.clients_us, one.cpu_us) == pytest.approx((6, 4, 10))


def test_ratios_are_made_round_by_round() -> None:
    ours, theirs = [leg(10), leg(200), leg(30)], [leg(5), leg(10), leg(10)]
    assert median_of_ratios(ours, theirs, lambda one: one.rate) == pytest.approx(3)


def test_every_promise_gets_its_verdict() -> None:
    everybody = {name: [leg(100.0)] for name in PEERS}
    results = {target.case: dict(everybody) for target in TARGETS}
    verdicts = {goal.name: goal for goal in goals("peers", results)}
    assert len(verdicts) == len(TARGETS) == 29
    assert verdicts["express, end to end, times NATS core"].verdict == "reached"
    assert verdicts["durable send, pipelined, times Redis-always"].verdict == "not reached"
    assert verdicts["durable, one at a time: p99, times RabbitMQ"].verdict == "not reached"
    assert verdicts["transaction of 100: CPU a message, times RabbitMQ"].at_most


def test_a_promise_without_its_peer_is_left_out() -> None:
    results = {target.case: {OURS: [leg(100.0)]} for target in TARGETS}
    assert goals("peers", results) == []
    assert {target.peer for target in TARGETS} < PEERS.keys()


def test_every_case_of_the_goals_is_measured() -> None:
    measured = {words for work in WORKS for words in (work.sending, work.receiving)}
    assert {target.case for target in TARGETS} <= measured


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.name)
def test_groups_make_up_the_load(work: Work) -> None:
    load = work.load(quick=False)
    assert sum(load.groups()) == load.messages
    assert max(load.groups()) == load.batch <= load.window
    assert load.durable == (work.mode in DURABLE)


def test_waits_follow_each_other() -> None:
    meter = Meter()
    meter.start()
    meter.lap()
    meter.lap()
    meter.stop()
    first, second = meter.waits
    assert first == (meter.began, meter.laps[0])
    assert second == (meter.laps[0], meter.laps[1])
    meter.laps.clear()
    assert meter.waits == [(meter.began, meter.ended)]


# -- the others


@pytest.mark.parametrize("name", [name for name in PEERS if name != OURS])
def test_what_is_sent_to_another_queue_comes_back(name: str) -> None:
    if why := PEERS[name].missing():
        pytest.skip(why)
    with (
        temporary_place(None) as place,
        place.fresh("peer") as directory,
        serving(make_server(name, directory)) as server,
    ):
        for work in WORKS[:4]:
            if PEERS[name].takes_part(work):
                assert run_round(Entrant(name, server), work, Load(work.mode, 150, 100))
        assert server.cpu_s() > 0
    assert not Path(f"/proc/{server.pid}").exists()


def test_a_missing_peer_is_left_out_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = "redis-server is not installed (apt-get install redis-server)"
    for name, peer in PEERS.items():
        why = absent if name == "redis" else None
        monkeypatch.setattr(peer.server, "missing", lambda why=why: why)
    assert "redis" not in command._chosen_peers(None)
    assert capsys.readouterr().err == f"Redis-always is left out: {absent}.\n"
    assert command._chosen_peers(["nats"]) == [OURS, "nats"]
    with pytest.raises(typer.Exit):
        command._chosen_peers(["redis"])


def test_a_missing_client_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contest, "find_spec", lambda name: None)
    assert PEERS["rabbitmq"].missing() == (
        "its Python client pika is not installed (pip install .[bench])"
    )


@pytest.mark.parametrize("arguments", [["activemq"], ["--work", "w1"]])
def test_unknown_names_are_refused(arguments: list[str]) -> None:
    words = [sys.executable, "-m", "benchmarks.peers", *arguments]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert arguments[-1] in done.stderr


def test_a_server_that_does_not_start_is_quoted(tmp_path: Path) -> None:
    class Failing(Server):
        title = "Failing"

        def command(self) -> Command:
            return Command(["sh", "-c", "echo no such luck; exit 1"], {})

    with (
        pytest.raises(RuntimeError, match=r"Failing did not start.*no such luck"),
        serving(Failing(tmp_path)),
    ):
        pass


def test_a_tree_of_processes_is_found_whole() -> None:
    assert process_tree(os.getpid())[0] == os.getpid()
    assert os.getpid() in process_tree(os.getppid())
    assert 1024 <= free_port() < 65536
