"""Batches by their columns, without packets."""

from __future__ import annotations

from posthouse.wire.packet.batch import Batch


def batch_of(sizes: list[int], ordinals: list[int], priorities: list[int]) -> Batch:
    """Messages that differ in size, ordinal and priority."""
    head = Batch.of_data(b"").head
    looks = [
        head._replace(packet_size=size, priority=priority)
        for size, priority in zip(sizes, priorities, strict=True)
    ]
    return Batch([b""] * len(sizes), looks, ordinals)
