"""What the columns of contents cost: reads with `decode` beside reads of the same queue without."""

from __future__ import annotations

from statistics import median
from typing import NamedTuple

from benchmarks.figures import Column, Row, hundredths, thousands
from benchmarks.formats import JSON, MESSAGES, XML_CLASS, XML_STRING
from benchmarks.spark_drivers import Bench, path_of
from benchmarks.spark_work import Done, Target, Work

COLUMNS = [
    Column("format", "message"),
    Column("bytes", "bytes", thousands),
    Column("target", "to"),
    Column("raw_per_s", "rows/s", thousands),
    Column("variant_per_s", "decoded", thousands),
    Column("ratio", "times", hundredths),
    Column("text_per_s", "decoded, body_json as text", thousands),
    Column("text_ratio", "times", hundredths),
]
LINES = b",".join([JSON] * 12)
STOCKS = {
    "JSON": (JSON, b""),
    "JSON of 1 KiB": (b"[" + LINES + b"]", b""),
    "text of 1 KiB": (b"plain text " * 93, b""),
    XML_STRING: (MESSAGES[XML_STRING][0], b""),
    XML_CLASS: (MESSAGES[XML_CLASS][0], b""),
    "NServiceBus, JSON": (JSON, MESSAGES["NServiceBus, JSON"][1]["extension"]),
}
TARGETS: tuple[Target, ...] = ("noop", "parquet")
FORMS = ("", "variant", "string")


class Case(NamedTuple):
    """A kind of message, and where its rows go."""

    name: str
    target: Target


Found = dict[Case, list[tuple[Done, Done, Done]]]  # raw, VARIANT, text


def measure_decoded(bench: Bench, rounds: int) -> Found:
    """In every round all three reads of a queue, one after the other."""
    count, found = bench.run.dose(100_000, 500), Found()
    for number, (name, (body, extension)) in enumerate(STOCKS.items()):
        bench.bar.step(f"decoding: {name}")
        queue = f"decoded{number}"
        bench.create(queue)
        bench.manager.queue(path_of(queue)).send_many([body] * count, extension=extension)
        for target in TARGETS:
            work = Work("posthouse", target, queue, rows=count)
            for _ in range(0 if bench.run.quick else 1):  # warms the driver up
                _round(bench, work)
            found[Case(name, target)] = [_round(bench, work) for _ in range(rounds)]
    return found


def _round(bench: Bench, work: Work) -> tuple[Done, Done, Done]:
    raw, variant, text = (bench.do(work._replace(decode=form)) for form in FORMS)
    return raw, variant, text


def decoded_rows(found: Found) -> list[Row]:
    """One row for each kind of message and target."""
    return [
        {
            "format": case.name,
            "bytes": sum(map(len, STOCKS[case.name])),
            "target": case.target,
            "raw_per_s": median(raw.rate for raw, _, _ in rounds),
            "variant_per_s": median(variant.rate for _, variant, _ in rounds),
            "ratio": median(variant.rate / raw.rate for raw, variant, _ in rounds),
            "text_per_s": median(text.rate for _, _, text in rounds),
            "text_ratio": median(text.rate / raw.rate for raw, _, text in rounds),
        }
        for case, rounds in found.items()
    ]
