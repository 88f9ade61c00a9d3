"""What applications call: sessions with a queue manager, blocking, asyncio and embedded."""
