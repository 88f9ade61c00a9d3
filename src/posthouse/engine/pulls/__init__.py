"""Messages that are taken over from queues of other machines, each once."""
