"""Adds up the orders of each customer that wait in a queue. Takes nothing out of it.

python examples/orders_by_customer.py --token-file token.txt './private$/orders' customers.parquet
"""

import argparse

from posthouse.spark import session


def main() -> None:
    parser = argparse.ArgumentParser(description="Orders by customer.")
    parser.add_argument("queue")
    parser.add_argument("table", help="folder for the Parquet files")
    parser.add_argument("--url", default="http://127.0.0.1:8816")
    parser.add_argument("--token-file", required=True)
    parser.add_argument("--master")
    given = parser.parse_args()

    spark = session("orders by customer", given.master)
    messages = (
        spark.read.format("posthouse")
        .option("url", given.url)
        .option("tokenFile", given.token_file)
        .option("queue", given.queue)
        .option("columns", "body,arrived_time")  # the others need not travel
        .load()
    )
    messages.selectExpr(
        # A body that is not JSON gives nulls: bodies are bytes that anybody may have sent.
        "from_json(string(body), 'order long, customer string, amount long') AS order",
        "arrived_time",
    ).createOrReplaceTempView("orders")
    customers = spark.sql(
        """
        SELECT order.customer, count(*) AS orders, sum(order.amount) AS amount,
               max(arrived_time) AS last_order
        FROM orders WHERE order.customer IS NOT NULL
        GROUP BY order.customer ORDER BY amount DESC
        """
    )
    customers.write.mode("overwrite").parquet(given.table)
    spark.read.parquet(given.table).show(truncate=False)


if __name__ == "__main__":
    main()
