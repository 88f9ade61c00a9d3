"""The tables of property identifiers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from posthouse.model.property_ids import (
    MACHINE_MANAGEMENT_PROPERTIES,
    MACHINE_PROPERTIES,
    MESSAGE_PROPERTIES,
    QUEUE_MANAGEMENT_PROPERTIES,
    QUEUE_PROPERTIES,
    Property,
    Vt,
)

TABLES = [
    (MESSAGE_PROPERTIES, "PROPID_M_", 69),
    (QUEUE_PROPERTIES, "PROPID_Q_", 27),
    (MACHINE_PROPERTIES, "PROPID_QM_", 41),
    (MACHINE_MANAGEMENT_PROPERTIES, "PROPID_MGMT_MSMQ_", 6),
    (QUEUE_MANAGEMENT_PROPERTIES, "PROPID_MGMT_QUEUE_", 27),
]


@pytest.mark.parametrize(("table", "prefix", "count"), TABLES)
def test_tables_are_complete_and_consistent(
    table: Mapping[int, Property], prefix: str, count: int
) -> None:
    assert len(table) == count
    assert list(table) == sorted(table)
    assert len({entry.name for entry in table.values()}) == count
    for propid, entry in table.items():
        assert entry.propid == propid
        assert entry.name.startswith(prefix)
        assert entry.vt & ~Vt.VECTOR in set(Vt)


@pytest.mark.parametrize(
    ("table", "propid", "name", "vt"),
    [
        (MESSAGE_PROPERTIES, 26, "PROPID_M_HASH_ALG", 19),
        (MESSAGE_PROPERTIES, 2, "PROPID_M_MSGID", 0x1011),
        (MESSAGE_PROPERTIES, 60, "PROPID_M_LOOKUPID", 21),
        (QUEUE_PROPERTIES, 106, "PROPID_Q_BASEPRIORITY", 2),
        (QUEUE_PROPERTIES, 102, "PROPID_Q_TYPE", 72),
        (MACHINE_PROPERTIES, 222, "PROPID_QM_SITE_IDS", 0x1048),
        (MACHINE_MANAGEMENT_PROPERTIES, 6, "PROPID_MGMT_MSMQ_BYTES_IN_ALL_QUEUES", 20),
        (QUEUE_MANAGEMENT_PROPERTIES, 25, "PROPID_MGMT_QUEUE_CONNECTION_HISTORY", 0x100C),
        (QUEUE_MANAGEMENT_PROPERTIES, 12, "PROPID_MGMT_QUEUE_NEXTHOPS", 0x101F),
    ],
)
def test_entries_have_number_name_and_type(
    table: Mapping[int, Property], propid: int, name: str, vt: int
) -> None:
    assert table[propid] == Property(propid, name, vt)
