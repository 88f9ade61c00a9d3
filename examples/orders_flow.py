"""A pipeline of a few functions: orders of a queue into a table, large ones on to another queue.

posthouse pipeline run examples/orders_flow.py --out ./orders
"""

from pyspark.sql import DataFrame

from posthouse.spark.flows import reads, sends, table


@reads("./private$/orders", columns="id,body,arrived_time")
def orders(messages: DataFrame) -> DataFrame:
    # A body that is not JSON gives nulls: bodies are bytes that anybody may have sent.
    order = "from_json(string(body), 'order long, customer string, amount long') AS o"
    return messages.selectExpr("arrived_time", order).selectExpr("arrived_time", "o.*")


@table
def by_customer(orders: DataFrame) -> DataFrame:
    return orders.where("customer IS NOT NULL").groupBy("customer").sum("amount")


@sends("./private$/large", label="large order")
def large_orders(orders: DataFrame) -> DataFrame:
    large = orders.where("amount >= 250")
    return large.selectExpr("to_json(struct(order, customer, amount)) AS body")
