"""Queues of any MSMQ as a data source of Spark, over remote read."""
