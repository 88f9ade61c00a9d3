"""The main things that a Spark has to do with queues: `python -m tests.any_spark.smoke ...`.

Its arguments are an address, a token file, a folder and a master. The queue `orders` has to have
messages. It prints what it found as one line of JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyspark
from pyspark.sql import functions as F

from posthouse.spark import archive, lake, session, sql, table


def main(url: str, token_file: str, folder: str, master: str) -> None:
    """Reads, sends, streams, archives, asks."""
    spark = session("smoke", master)
    access = {"url": url, "tokenFile": token_file}
    orders = table(spark, "orders", ["label", "body"], url=url, token_file=token_file)
    sent = spark.range(7).select(
        F.col("id").cast("string").cast("binary").alias("body"), F.lit("sent").alias("label")
    )
    sink = sent.write.format("posthouse").mode("append")
    sink.options(**access, queue=".\\private$\\sent").save()
    stream = spark.readStream.format("posthouse").options(**access, queue="sent")
    stream = stream.option("consume", "onCommit").option("group", "smoke")
    out = stream.load().select("body", "label").writeStream.format("posthouse")
    out = out.options(**access, queue=".\\private$\\copied")
    out = out.option("checkpointLocation", str(Path(folder, "checkpoint")))
    out.trigger(availableNow=True).start().awaitTermination()
    again = archive(
        ".\\private$\\orders", Path(folder, "lake"), url=url, token_file=token_file, spark=spark
    )
    kept = lake(Path(folder, "lake"), spark)
    statement = "select count(*), max(decode_text(body)) from posthouse.alpha.orders"
    answer = sql(statement, url=url, token_file=token_file, spark=spark).collect()
    found = {
        "version": pyspark.__version__,
        "labels": sorted(map(list, orders.groupBy("label").count().collect())),
        "archived": again.messages,
        "lake": kept.count(),
        "sql": list(answer[0]),
        "variant": kept.selectExpr("decode_message(body).body_json").count(),
    }
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
