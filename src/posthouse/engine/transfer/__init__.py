"""Messages between queue managers: outgoing queues, sequences, arrivals, forwarding."""
