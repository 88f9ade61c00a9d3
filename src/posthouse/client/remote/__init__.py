"""Remote read as a client: queues of other computers ([MS-MQRR] 3.2)."""
