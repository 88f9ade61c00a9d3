"""A new table for a lake: reader version 1 and writer version 2 of Delta, as all readers have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake import Schema as DeltaSchema
from deltalake.transaction import AddAction, create_table_with_add_actions

from posthouse.spark.lakes.columns import LAKE_COLUMNS, PARTED_BY
from posthouse.spark.lakes.log import NO_HOOKS
from posthouse.spark.lakes.state import MANAGER

NAME: Final = "messages"
DESCRIPTION: Final = "Messages that `posthouse pipeline archive` has written."
# Statistics of other columns would put what messages hold into the log, where no erasure gets it.
SETTINGS: Final = {
    "delta.dataSkippingStatsColumns": "lookup_id,arrived_time",
    "delta.deletedFileRetentionDuration": "interval 7 days",
    "delta.logRetentionDuration": "interval 30 days",
}
NO_MANAGERS: Final[Mapping[str, str]] = {}


def create_table(
    uri: str,
    options: dict[str, str] | None,
    files: Sequence[AddAction] = (),
    done: Sequence[Transaction] = (),
    managers: Mapping[str, str] = NO_MANAGERS,
) -> None:
    """Makes a table, with the files and the progress that an older lake has."""
    create_table_with_add_actions(
        uri,
        DeltaSchema.from_arrow(LAKE_COLUMNS),
        list(files),
        mode="error",
        partition_by=list(PARTED_BY),
        name=NAME,
        description=DESCRIPTION,
        configuration=SETTINGS,
        storage_options=options,
        commit_properties=CommitProperties(app_transactions=list(done)),
        post_commithook_properties=NO_HOOKS,
    )
    if managers:
        set_managers(DeltaTable(uri, storage_options=options), managers)


def set_managers(table: DeltaTable, managers: Mapping[str, str]) -> None:
    """Notes the GUIDs of queue managers."""
    named = {MANAGER + name: guid for name, guid in managers.items()}
    table.alter.set_table_properties(
        named, raise_if_not_exists=False, post_commithook_properties=NO_HOOKS
    )
