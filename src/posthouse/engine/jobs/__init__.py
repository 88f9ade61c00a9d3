"""Job queues and jobs (NetWare QMS)."""
