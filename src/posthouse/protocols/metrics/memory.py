"""The metrics of the memory budget."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from posthouse.protocols.memory import Buffer, MemoryAccount


def memory_metrics(memory: MemoryAccount) -> Iterator[Metric]:
    """What buffers hold, what is announced, who waited and who was closed."""
    held = GaugeMetricFamily(
        "posthouse_memory_bytes", "Bytes in buffers of connections, by purpose.", labels=["kind"]
    )
    for kind in Buffer:
        held.add_metric([kind.name.lower()], memory.bytes[kind])
    yield held
    gauges = {
        "reserved": (
            "Bytes reserved for data that peers have announced and not sent yet.",
            memory.reserved,
        ),
        "limit": ("Largest number of bytes in all buffers ([limits] memory).", memory.limit),
    }
    for name, (about, value) in gauges.items():
        yield GaugeMetricFamily(f"posthouse_memory_{name}_bytes", about, value=value)
    counters = {
        "waits": ("Large packets that had to wait for memory.", memory.delayed),
        "refusals": ("Requests and answers refused for lack of memory.", memory.refused),
        "released": ("Reservations taken back because the peer sent too slowly.", memory.released),
    }
    for name, (about, count) in counters.items():
        yield CounterMetricFamily(f"posthouse_memory_{name}", about, value=count)
    closed = CounterMetricFamily(
        "posthouse_memory_closed", "Sessions closed for lack of memory.", labels=["reason"]
    )
    for reason, count in sorted(memory.closed.items()):
        closed.add_metric([reason], count)
    yield closed
