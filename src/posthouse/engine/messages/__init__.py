"""Messages: send, admit, read, wait, move, expire, and what follows when a message ends."""
