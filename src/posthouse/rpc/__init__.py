"""DCE/RPC over TCP, connection-oriented ([MS-RPCE], C706): knows nothing of queues."""
