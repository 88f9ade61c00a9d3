"""Orders of a queue as a table that grows, and what each customer has ordered as another.

The stream observes its queue. Spark keeps how far it has come in the pipeline's storage.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


@dp.table(comment="every order that came, once")
def orders() -> DataFrame:
    messages = (
        spark.readStream.format("posthouse")
        .option("url", spark.conf.get("posthouse.url"))
        .option("tokenFile", spark.conf.get("posthouse.tokenFile"))
        .option("queue", spark.conf.get("posthouse.queue"))
        .option("columns", "lookup_id,body,arrived_time")
        .load()
    )
    order = F.from_json(F.col("body").cast("string"), "order long, customer string, amount long")
    return messages.withColumn("order", order).select("lookup_id", "arrived_time", "order.*")


@dp.materialized_view(comment="what each customer has ordered")
def customers() -> DataFrame:
    return (
        spark.read.table("orders")
        .where("customer IS NOT NULL")
        .groupBy("customer")
        .agg(F.count("*").alias("orders"), F.sum("amount").alias("amount"))
    )
