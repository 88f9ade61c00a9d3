"""Management of the queue manager from afar, [MS-MQMR]: an interface of DCE/RPC."""
