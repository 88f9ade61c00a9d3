"""DCE/RPC over TCP, connection-oriented ([MS-RPCE], C706), independent of queues."""
