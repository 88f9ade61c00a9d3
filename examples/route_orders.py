"""Takes orders out of a queue and sends each to one of two others, exactly once.

Run it again to go on, also after something was killed: the checkpoint holds its position.

python examples/route_orders.py --token-file token.txt './private$/orders' \\
    --checkpoint at --limit 250 './private$/large' './private$/small'
"""

import argparse

from pyspark.sql import functions as f

from posthouse.spark import session


def main() -> None:
    parser = argparse.ArgumentParser(description="Large orders here, small ones there.")
    parser.add_argument("queue")
    parser.add_argument("large")
    parser.add_argument("small")
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--limit", type=int, default=250, help="from here on an order is large")
    parser.add_argument("--url", default="http://127.0.0.1:8816")
    parser.add_argument("--token-file", required=True)
    parser.add_argument("--master")
    given = parser.parse_args()

    spark = session("route orders", given.master)
    access = {"url": given.url, "tokenFile": given.token_file}
    orders = (
        spark.readStream.format("posthouse")
        .options(**access)
        .option("queue", given.queue)
        .option("consume", "onCommit")
        .option("group", "route-orders")
        .option("maxMessagesPerTrigger", 100_000)
        .load()
    )
    amount = f.expr("from_json(string(body), 'amount long').amount")
    # What is not an order, or has no amount, counts as small: null is not above the limit.
    to = f.when(amount >= given.limit, f.lit(given.large)).otherwise(f.lit(given.small))
    routed = orders.select("body", "label", "priority", to.alias("destination"))
    query = (
        routed.writeStream.format("posthouse")
        .options(**access)
        .option("checkpointLocation", given.checkpoint)
        .trigger(availableNow=True)  # leave this out to go on for ever
        .start()
    )
    query.awaitTermination()
    print(f"{given.queue} is routed")


if __name__ == "__main__":
    main()
