"""Remote read, [MS-MQRR]: an interface of DCE/RPC on the queues of the engine."""
