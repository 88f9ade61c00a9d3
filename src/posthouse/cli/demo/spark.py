"""The Spark process of `posthouse demo`; see `posthouse.cli.demo.pipeline`.

Each step is a line of JSON on standard output, the last one what came of all.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from posthouse.cli.demo.jobs import QUEUE, SERVER, SERVER_TYPE
from posthouse.cli.demo.pipeline import Customer, Piped
from posthouse.client.connect import connect
from posthouse.model.bindery import parse_type
from posthouse.qms.queue_server import QueueServer
from posthouse.spark import archive, lake, session
from posthouse.spark.jobs.worker import SparkWorker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MASTER: Final = "local[2]"
ORDER: Final = "from_json(string(body), 'order long, customer string, amount long') AS placed"
SHOWN: Final = 5


def tell(message: object) -> None:
    """One line."""
    sys.stdout.write(msgspec.json.encode(message).decode() + "\n")
    sys.stdout.flush()


def customers_of(messages: DataFrame) -> DataFrame:
    """Orders and amount of each customer, the best ones first."""
    placed = messages.selectExpr(ORDER).select("placed.*")
    grouped = placed.groupBy("customer").agg({"order": "count", "amount": "sum"})
    table = grouped.selectExpr("customer", "`count(order)` AS orders", "`sum(amount)` AS amount")
    return table.orderBy("amount", "customer", ascending=[False, True])


def reasons_of(spark: SparkSession, access: dict[str, str], queue: str) -> dict[str, int]:
    """Dead letters by the reason that they have."""
    letters = spark.read.format("posthouse").options(**access, queue=queue, columns="class").load()
    return {row["class"]: row["count"] for row in letters.groupBy("class").count().collect()}


def service(spark: SparkSession, url: str, token_file: str) -> None:
    """This session as a queue server, for the one job that waits."""
    with connect(url=url, token_file=token_file) as manager:
        worker = SparkWorker(spark, url)
        QueueServer(manager, SERVER, parse_type(SERVER_TYPE), [QUEUE], worker, jobs=1).run()


def main(home: str, url: str, token_file: str, queue: str, dead_letters: str) -> None:
    """All steps."""
    folder, table = str(Path(home, "lake")), str(Path(home, "customers"))
    tell({"step": "starting Spark"})
    spark = session("posthouse demo", MASTER)
    tell({"step": "servicing a job"})
    service(spark, url, token_file)
    tell({"step": "archiving"})
    archive([queue], folder, url=url, token_file=token_file, spark=spark)
    tell({"step": "customers"})
    messages = lake(folder, spark)
    customers_of(messages).write.parquet(table)
    tell({"step": "dead letters"})
    reasons = reasons_of(spark, {"url": url, "tokenFile": token_file}, dead_letters)
    rows = [Customer(**row.asDict()) for row in spark.read.parquet(table).collect()]
    rows.sort(key=lambda row: (-row.amount, row.customer))
    orders, amount = sum(row.orders for row in rows), sum(row.amount for row in rows)
    tell(Piped(messages.count(), orders, amount, rows[:SHOWN], reasons, folder, table))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
