"""Orders of a queue as a table that grows, what each customer has ordered as another, and a copy of
each order in a second queue.

The streams observe their queue. Spark keeps how far they have come in the pipeline's storage.
"""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()
ACCESS = {
    "url": os.environ.get("POSTHOUSE_URL", "http://127.0.0.1:8816"),
    "tokenFile": os.environ["POSTHOUSE_TOKEN_FILE"],
}
QUEUE = os.environ.get("POSTHOUSE_QUEUE", "./private$/orders")
COPIES = os.environ.get("POSTHOUSE_COPIES", "./private$/order-copies")

dp.create_sink("copies", "posthouse", {**ACCESS, "queue": COPIES})


@dp.table(comment="every order that came, once")
def orders() -> DataFrame:
    messages = (
        spark.readStream.format("posthouse")
        .options(**ACCESS, queue=QUEUE)
        .option("columns", "lookup_id,body,arrived_time")
        .load()
    )
    order = F.from_json(F.col("body").cast("string"), "order long, customer string, amount long")
    return messages.withColumn("order", order).select("lookup_id", "arrived_time", "order.*")


@dp.append_flow(target="copies")
def copied_orders() -> DataFrame:
    """Each order once, also if a run is cut off."""
    return (
        spark.readStream.format("posthouse")
        .options(**ACCESS, queue=QUEUE)
        .option("columns", "label,body")
        .load()
    )


@dp.materialized_view(comment="what each customer has ordered")
def customers() -> DataFrame:
    return (
        spark.read.table("orders")
        .where("customer IS NOT NULL")
        .groupBy("customer")
        .agg(F.count("*").alias("orders"), F.sum("amount").alias("amount"))
    )
