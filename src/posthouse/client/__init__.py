"""The client library: sessions with a queue manager, blocking, asyncio and embedded."""
