"""Sends a table: each row becomes one message with a JSON body, all of them or none.

python examples/send_table.py --token-file token.txt --orders 1000 './private$/orders'
"""

import argparse

from pyspark.sql import DataFrame, SparkSession

from posthouse.spark import session


def main() -> None:
    parser = argparse.ArgumentParser(description="Send orders that this program makes up.")
    parser.add_argument("queue")
    parser.add_argument("--orders", type=int, default=1000)
    parser.add_argument("--url", default="http://127.0.0.1:8816")
    parser.add_argument("--token-file", required=True)
    parser.add_argument("--master")
    given = parser.parse_args()

    spark = session("send a table", given.master)
    (
        made_up_orders(spark, given.orders)
        # A struct as the body is written as JSON; other columns are properties of the message.
        .selectExpr("struct(order, customer, amount) AS body", "priority", "label")
        .write.format("posthouse")
        .option("url", given.url)
        .option("tokenFile", given.token_file)
        .option("queue", given.queue)
        .mode("append")
        .save()
    )
    print(f"{given.orders} orders sent to {given.queue}")


def made_up_orders(spark: SparkSession, count: int) -> DataFrame:
    """Any table does."""
    return spark.range(count).selectExpr(
        "id AS order",
        "concat('customer ', id % 7) AS customer",
        "5 + id * 7919 % 495 AS amount",
        "int(id % 8) AS priority",
        "concat('order ', id) AS label",
    )


if __name__ == "__main__":
    main()
