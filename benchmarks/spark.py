"""`spark`: queues as tables and streams, beside what is built into Spark, in the same rounds.

Parquet files hold the same rows with the same columns as the queue; `rate-micro-batch` makes its
rows from nothing. Two drivers run: one with the settings of `posthouse.spark.session()`, one with
Spark's own. Ratios are made inside each round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from statistics import median
from typing import NamedTuple

from benchmarks.figures import Column, Goal, Outcome, Row, Table, hundredths, tenths, thousands
from benchmarks.run import Run
from benchmarks.spark_beside import Senders, measure_archive, measure_senders
from benchmarks.spark_decoded import COLUMNS as DECODED
from benchmarks.spark_decoded import STOCKS, Found, decoded_rows, measure_decoded
from benchmarks.spark_drivers import SETTINGS, SIZES, Bench, Dose, doses
from benchmarks.spark_work import Done, Work

NAME = "spark"
GROWTH_MIB = 64  # some batches of 8 MiB on their way

RATES = [
    Column("work", "work"),
    Column("size", "body", thousands),
    Column("rate_per_s", "rows/s", thousands),
    Column("beside", "beside"),
    Column("beside_per_s", "rows/s", thousands),
    Column("ratio", "times", hundredths),
]
LATENCY = [
    Column("ours", "queue to noop, settings"),
    Column("ours_ms", "ms", tenths),
    Column("beside", "rate-micro-batch to noop, settings"),
    Column("beside_ms", "ms", tenths),
    Column("ratio", "times", hundredths),
]
ARCHIVE = [
    Column("rows", "messages", thousands),
    Column("wall_s", "seconds", tenths),
    Column("rate_per_s", "rows/s", thousands),
    Column("begun_per_s", "rows/s once Spark runs", thousands),
    Column("before_mib", "queue manager MiB", tenths),
    Column("peak_mib", "at most MiB", tenths),
]
SENDERS = [
    Column("beside", "two senders beside"),
    Column("rate_per_s", "sent/s", thousands),
    Column("read_per_s", "rows/s read", thousands),
]


class Case(NamedTuple):
    """Something that is measured beside something built in."""

    name: str
    ours: Callable[[Dose], Work]
    beside: str = ""
    theirs: Callable[[Dose], Work] | None = None


def _stream(dose: Dose) -> Work:
    batches = dose.stock // dose.batch
    return Work("posthouse", "noop", dose.queue, rows=dose.batch, batches=batches)


def _consuming(dose: Dose) -> Work:
    batches = dose.sunk // dose.batch
    name = dose.sink
    return Work("posthouse", "noop", name, rows=dose.batch, batches=batches, consume=True)


def _rate(dose: Dose) -> Work:
    return _stream(dose)._replace(source="rate")


CASES = (
    Case(
        "table read to noop",
        lambda dose: Work("posthouse", "noop", dose.queue, rows=dose.stock, by_table=True),
        "Parquet to noop",
        lambda dose: Work("parquet", "noop", dose.table, rows=dose.stock),
    ),
    Case(
        "batch read to noop",
        lambda dose: Work("posthouse", "noop", dose.queue, rows=dose.stock),
        "Parquet to noop",
        lambda dose: Work("parquet", "noop", dose.table, rows=dose.stock),
    ),
    Case(
        "batch read to Parquet",
        lambda dose: Work("posthouse", "parquet", dose.queue, rows=dose.stock),
        "Parquet to Parquet",
        lambda dose: Work("parquet", "parquet", dose.table, rows=dose.stock),
    ),
    Case(
        "labels counted, by the catalog",
        lambda dose: Work("posthouse", "noop", dose.queue, rows=dose.stock, counts="label"),
        "labels counted, Parquet",
        lambda dose: Work("parquet", "noop", dose.table, rows=dose.stock, counts="label"),
    ),
    Case(
        "generator to queue, durable",
        lambda dose: Work("generator", "posthouse", to=dose.sink, rows=dose.sunk, size=dose.size),
        "generator to Parquet",
        lambda dose: Work("generator", "parquet", rows=dose.sunk, size=dose.size),
    ),
    Case("stream to noop, consuming", _consuming),  # what the case above has sent
    Case("stream to noop", _stream, "rate-micro-batch to noop", _rate),
    Case(
        "stream to Parquet",
        lambda dose: _stream(dose)._replace(target="parquet"),
        "rate-micro-batch to Parquet",
        lambda dose: _rate(dose)._replace(target="parquet"),
    ),
)
READ, _, _, COUNTED, SINK, _, STREAM, _ = (case.name for case in CASES)
ONE_ROW = Work("posthouse", "noop", rows=1)
WORDS = {"session": "of session()", "defaults": "Spark's defaults"}


# -- the run


def measure(run: Run) -> Outcome:
    """All tables."""
    rounds = run.dose(3, 1)
    steps = 4 + rounds * (len(doses(run)) * len(CASES) + 2) + len(STOCKS)
    with (
        run.bar(NAME, steps) as bar,
        run.place.fresh(NAME) as folder,
        ExitStack() as running,
    ):
        bar.step("starting a server and two drivers")
        bench = Bench(run, bar, folder, running)
        rates = measure_rates(bench, rounds)
        latency = measure_latency(bench, rounds)
        senders = measure_senders(bench, rounds)
        decoded = measure_decoded(bench, rounds)
        archive = measure_archive(bench)
    tables = [
        Table(NAME, "rates", "spark: rows a second, two cores", RATES, list(rate_rows(rates))),
        Table(NAME, "latency", "spark: a batch of one row", LATENCY, list(latency_rows(latency))),
        Table(NAME, "senders", "spark: senders beside a pipeline", SENDERS, senders.rows()),
        Table(NAME, "decoded", "spark: what is in messages", DECODED, decoded_rows(decoded)),
        Table(NAME, "archive", "spark: `posthouse pipeline archive`", ARCHIVE, [archive]),
    ]
    found = goals(rates, latency, senders, archive) + decoded_goals(decoded)
    return Outcome(tables, found)


# -- rates

Rates = dict[tuple[str, int], list[tuple[Done, Done | None]]]


def measure_rates(bench: Bench, rounds: int) -> Rates:
    """Every case beside what is built in, round after round."""
    found: Rates = {}
    for dose in doses(bench.run):
        bench.bar.step(f"filling a queue, {dose.size} bytes")
        fill(bench, dose)
        warm = 0 if bench.run.quick else 1  # rounds that warm the drivers up, and count nothing
        for number in range(warm + rounds):
            bench.create(dose._replace(round=number).sink)
            for case in CASES:
                bench.bar.step(f"{case.name}, {dose.size} bytes")
                pair = measure_case(bench, case, dose._replace(round=number))
                if number >= warm:
                    found.setdefault((case.name, dose.size), []).append(pair)
    return found


def fill(bench: Bench, dose: Dose) -> None:
    """A queue, and a table with the same rows."""
    bench.create(dose.queue)
    sent = Work("generator", "posthouse", to=dose.queue, rows=dose.stock, size=dose.size)
    bench.do(sent)
    bench.do(Work("posthouse", "parquet", dose.queue, to=dose.table, rows=dose.stock))


def measure_case(bench: Bench, case: Case, dose: Dose) -> tuple[Done, Done | None]:
    """Ours and theirs, one right after the other."""
    ours = bench.do(case.ours(dose))
    return ours, bench.do(case.theirs(dose)) if case.theirs else None


def rate_rows(rates: Rates) -> Iterator[Row]:
    """One row for each case and size."""
    besides = {case.name: case.beside for case in CASES}
    for (name, size), pairs in rates.items():
        theirs = [done.rate for _, done in pairs if done]
        yield {
            "work": name,
            "size": size,
            "rate_per_s": median(done.rate for done, _ in pairs),
            "beside": besides[name],
            "beside_per_s": median(theirs) if theirs else None,
            "ratio": ratio(pairs) if theirs else None,
        }


def ratio(pairs: Sequence[tuple[Done, Done | None]]) -> float:
    """How many times as fast, round by round."""
    return median(ours.rate / theirs.rate for ours, theirs in pairs if theirs)


# -- latency

Latency = dict[tuple[str, str], list[float]]  # source, settings


def measure_latency(bench: Bench, rounds: int) -> Latency:
    """Both sources under both settings, in turns."""
    found: Latency = {}
    batches = bench.run.dose(60, 4)
    work = ONE_ROW._replace(name=doses(bench.run)[0].queue, batches=batches, skipped=batches // 4)
    for _ in range(rounds):
        bench.bar.step("batches of one row")
        for settings in SETTINGS:
            for source in ("posthouse", "rate"):
                done = bench.do(work._replace(source=source), settings)
                found.setdefault((source, settings), []).append(median(done.batch_ms))
    return found


def latency_rows(latency: Latency) -> Iterator[Row]:
    """What was promised, then equal settings."""
    for ours, theirs in (("session", "defaults"), ("session", "session"), ("defaults", "defaults")):
        pairs = list(zip(latency["posthouse", ours], latency["rate", theirs], strict=True))
        yield {
            "ours": WORDS[ours],
            "ours_ms": median(one for one, _ in pairs),
            "beside": WORDS[theirs],
            "beside_ms": median(other for _, other in pairs),
            "ratio": median(one / other for one, other in pairs),
        }


# -- goals


def goals(rates: Rates, latency: Latency, senders: Senders, archive: Row) -> list[Goal]:
    """What part 5 promises."""
    found, sizes = [], [size for name, size in rates if name == READ]
    for size in sizes:
        times = ratio(rates[READ, size])
        found.append(_goal(f"table read beside Parquet, {size} bytes", times, 0.55, 0.7))
        times = ratio(rates[COUNTED, size])
        found.append(_goal(f"labels counted beside Parquet, {size} bytes", times, 0.4, 0.6))
    stream = median(done.rate for done, _ in rates[STREAM, SIZES[0]])
    found.append(_goal(f"stream, {SIZES[0]} bytes", stream, 300_000, unit="rows/s"))
    for size in sizes:
        sink = median(done.rate for done, _ in rates[SINK, size])
        found.append(_goal(f"sink, {size} bytes", sink, 100_000, unit="durable rows/s"))
    promised, equal, _ = latency_rows(latency)
    words = f"{equal['ratio']:.2f} under equal settings"
    times = float(promised["ratio"] or 0)
    name = "batch of one row beside rate-micro-batch"
    found.append(Goal(NAME, name, times, 1.5, 1.0, at_most=True, condition=words))
    name = "rate that senders lose to a read of a queue more than to one of files"
    found.append(Goal(NAME, name, 100 * senders.loss, 20, at_most=True, unit="%"))
    name = "memory that an archive costs the queue manager"
    found.append(Goal(NAME, name, grown_mib(archive), GROWTH_MIB, at_most=True, unit="MiB"))
    return found


def grown_mib(archive: Row) -> float:
    """What an archive costs the queue manager, at most."""
    return float(archive["peak_mib"] or 0) - float(archive["before_mib"] or 0)


def _goal(
    name: str, value: float, required: float, aim: float | None = None, unit: str = ""
) -> Goal:
    return Goal(NAME, name, value, required, aim, unit=unit)


def decoded_goals(found: Found) -> list[Goal]:
    """Decoding at half the rate of raw rows, for each kind of message into Parquet."""
    return [
        _goal(f"decoded beside raw, to Parquet: {row['format']}", float(row["ratio"] or 0), 0.5)
        for row in decoded_rows(found)
        if row["target"] == "parquet"
    ]
