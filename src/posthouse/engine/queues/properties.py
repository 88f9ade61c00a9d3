"""Which properties of a queue can be changed, and to what ([MS-MQDMPR] 3.1.1.2)."""

from __future__ import annotations

from typing import Any

from posthouse.engine.queues.queue import Queue
from posthouse.model.errors import PropertyNotAllowed
from posthouse.model.properties import QueueProperties

_PROPERTIES = frozenset(
    {
        "label",
        "type_guid",
        "journaling",
        "quota_kib",
        "journal_quota_kib",
        "authentication",
        "privacy_level",
        "multicast_address",
        "base_priority",
        "code_page",
        "max_aborts",
        "poison_queue",
        "retry_delays",
    }
)


def checked_properties(queue: Queue, values: dict[str, object]) -> dict[str, object]:
    """New values of properties as they are kept; refuses what cannot be changed or is wrong."""
    unknown = set(values) - _PROPERTIES
    if unknown:
        raise PropertyNotAllowed(f"{', '.join(sorted(unknown))} cannot be changed")
    current = queue.definition
    known: dict[str, Any] = {name: getattr(current, name) for name in _PROPERTIES}
    properties = QueueProperties(**known | values)
    properties.multicast_address = properties.multicast_address or None
    properties.transactional = current.transactional
    properties.validate()
    checked = {name: getattr(properties, name) for name in values}
    if "multicast_address" in checked:
        checked["multicast_address"] = properties.multicast_address or ""
    return checked
