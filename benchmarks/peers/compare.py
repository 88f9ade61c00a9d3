"""The whole comparison: servers up, syncs shown, rounds, tables."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from benchmarks.figures import Column, Outcome, Row, Table, hundredths, tenths, thousands
from benchmarks.peers.contest import BINARY, OURS, PAIR, PEERS, Entrant, Leg, make_server, run_round
from benchmarks.peers.goals import Results, goals, median_of_ratios
from benchmarks.peers.proof import can_trace, prove
from benchmarks.peers.server import serving
from benchmarks.peers.work import WORKS, Work
from benchmarks.run import Bar, Run

Proofs = dict[str, dict[str, float]]  # syncs a group by peer, then by the words of the work

RATES = [
    Column("case", "workload"),
    Column("peer", "queue"),
    Column("rate_per_s", "messages/s", thousands),
    Column("rate_low", "worst round", thousands),
    Column("rate_high", "best round", thousands),
    Column("megabytes_per_s", "MB/s", tenths),
    Column("cpu_us", "CPU µs each", tenths),
    Column("server_us", "of server", tenths),
    Column("clients_us", "of clients", tenths),
    Column("p50_ms", "p50 ms", hundredths),
    Column("p99_ms", "p99 ms", hundredths),
    Column("syncs_per_group", "syncs a group", hundredths),
]
RATIO = Column("ratio", "Posthouse, times", hundredths)
_TRACED = (
    "syncs a group: calls from the first message of a group to its acknowledgment, seen by strace"
    " in a pass of its own; a group is 100 messages, or one where each waits"
)
_NOT_TRACED = "strace cannot look here: the syncs of Posthouse are counted by its own metrics only"


def measure(run: Run, benchmark: str, names: Sequence[str], works: Sequence[Work]) -> Outcome:
    """All of these take turns in every round of every workload."""
    with run.place.fresh(benchmark) as directory, ExitStack() as stack:
        steps = sum(PEERS[name].takes_part(work) for name in names for work in works)
        bar = stack.enter_context(run.bar(benchmark, len(names) * 2 + run.rounds * steps))
        entrants = [_enter(stack, directory, name, bar) for name in names]
        proofs = {entrant.name: _prove(run, entrant, directory, bar) for entrant in entrants}
        results = _rounds(run, entrants, works, bar)
    return Outcome(
        [_table(benchmark, results, proofs, compared=len(names) > 1)], goals(benchmark, results)
    )


def _enter(stack: ExitStack, directory: Path, name: str, bar: Bar) -> Entrant:
    server = make_server(name, directory)
    bar.step(f"starting {server.title}")
    return Entrant(name, stack.enter_context(serving(server)))


def _prove(run: Run, entrant: Entrant, directory: Path, bar: Bar) -> dict[str, float]:
    """Syncs a group by workload; nothing where nothing can be traced."""
    bar.step(f"counting the syncs of {entrant.server.title}")
    if not can_trace():
        return {}
    proofs = prove(entrant, run.dose(50, 5), directory)
    return {proof.case: proof.syncs / proof.groups for proof in proofs}


def _rounds(run: Run, entrants: Sequence[Entrant], works: Sequence[Work], bar: Bar) -> Results:
    """Another one begins each round, so that none always follows the same one."""
    results: Results = {}
    for work in works:
        load = work.load(quick=run.quick)
        for number in range(run.rounds):
            first = number % len(entrants)
            for entrant in [*entrants[first:], *entrants[:first]]:
                if entrant.peer.takes_part(work):
                    bar.step(f"{work.sending}: {entrant.server.title}")
                    for case, leg in run_round(entrant, work, load).items():
                        results.setdefault(case, {}).setdefault(entrant.name, []).append(leg)
    return results


# -- the table


def _table(benchmark: str, results: Results, proofs: Proofs, *, compared: bool) -> Table:
    title = f"{benchmark}: one producer, one consumer; bodies of 1 KiB where nothing else is said"
    table = Table(benchmark, "rates", title, [*RATES, RATIO] if compared else RATES)
    table.note = _TRACED if any(proofs.values()) else _NOT_TRACED
    for case, by_peer in results.items():
        for name in sorted(by_peer, key=list(PEERS).index):
            row = _row(case, name, by_peer[name]) | {"syncs_per_group": proofs[name].get(case)}
            if compared and OURS in by_peer:
                row["ratio"] = median_of_ratios(by_peer[OURS], by_peer[name], lambda leg: leg.rate)
            table.rows.append(row)
    return table


def _row(case: str, name: str, legs: list[Leg]) -> Row:
    rates = [leg.rate for leg in legs]
    return {
        "case": case,
        "peer": PEERS[name].server.title,
        "rate_per_s": median(rates),
        "rate_low": min(rates),
        "rate_high": max(rates),
        "megabytes_per_s": median(leg.megabytes for leg in legs),
        "cpu_us": median(leg.cpu_us for leg in legs),
        "server_us": median(leg.server_us for leg in legs),
        "clients_us": median(leg.clients_us for leg in legs),
        "p50_ms": _median_or_none([leg.p50_ms for leg in legs]),
        "p99_ms": _median_or_none([leg.p99_ms for leg in legs]),
    }


def _median_or_none(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def measure_ours(run: Run) -> Outcome:
    """`server`: Posthouse alone, for `make bench`."""
    return measure(run, "server", [OURS, BINARY, PAIR], WORKS)
