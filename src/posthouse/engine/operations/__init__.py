"""Operations: work on many messages that the server does by itself, and that outlives a restart."""
