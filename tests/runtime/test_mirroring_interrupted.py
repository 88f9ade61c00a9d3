"""Several changes at an authority that makes them one by one, and stops in between."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from posthouse.directory import objects
from posthouse.directory.authority import AuthorityAway, Changes, Refused
from posthouse.directory.base import DirectoryOperationResult
from posthouse.directory.document.document import Difference
from posthouse.directory.document.text import parse_document
from posthouse.directory.objects import DirectoryObject
from posthouse.model.errors import DsError, NoDs, QueueError, QueueExists
from tests.engine.rig import Rig
from tests.runtime.sharing import HandyFile, SharingRig, file_of

DOCUMENT = """
[[sites]]
name = "North"
[[sites]]
name = "Paris"
[[sites]]
name = "South"
"""
OLD = 1_500_000_000


class OneByOne:
    """A file, asked as a directory server is; `fails` says where that ends."""

    def __init__(self, file: HandyFile, cause: Exception) -> None:
        self._file = file
        self.cause: Exception | None = cause

    def changes(self, token: str) -> Changes:
        return self._file.changes(token)

    def create(
        self, value: DirectoryObject, utc_s: int, attributes: Collection[str] | None = None
    ) -> DirectoryObject:
        if self.cause is not None and "paris" in value.unique_name:
            raise self.cause
        return self._file.create(value, utc_s, attributes)

    def write(
        self,
        value: DirectoryObject,
        utc_s: int,
        attributes: Collection[str] | None = None,
        base: DirectoryObject | None = None,
    ) -> DirectoryObject:
        return self._file.write(value, utc_s, attributes, base)

    def delete(self, value: DirectoryObject) -> None:
        self._file.delete(value)

    def close(self) -> None:
        self._file.close()


def take_in(rig: Rig, text: str = DOCUMENT) -> Difference:
    document = parse_document(text, "somewhere")
    return rig.run(lambda m: m.directory.take_in(document, prune=False, dry_run=False))


def known(rig: SharingRig) -> list[str]:
    return sorted(
        one.name for one in rig.manager.directory.queues.directory.all_known(objects.Site)
    )


REFUSED = Refused(DirectoryOperationResult.GENERIC_ERROR, "Paris is not wanted")


@pytest.mark.parametrize(
    ("cause", "error"),
    [
        (REFUSED, DsError),
        (AuthorityAway("Paris cannot be reached"), NoDs),
        (ZeroDivisionError("Paris"), NoDs),
    ],
)
def test_an_import_tells_what_was_made_and_can_be_repeated(
    tmp_path: Path, cause: Exception, error: type[QueueError]
) -> None:
    rig = SharingRig(file_of(tmp_path / "directory.toml"))
    authority = OneByOne(rig.authority, cause)
    rig.feed._authority = authority
    assert rig.refresh()
    with pytest.raises(error, match=r"1 of 3 changes were made, then: .*Paris"):
        take_in(rig)
    assert known(rig) == ["North"]
    rig.restart()  # what was made is in the log
    rig.feed._authority = authority
    assert rig.refresh()
    assert known(rig) == ["North"]
    authority.cause = None
    found = take_in(rig)
    assert [one.unique_name for one in found.created] == ["paris", "south"]
    assert known(rig) == ["North", "Paris", "South"]


def test_a_single_change_is_made_or_not(tmp_path: Path) -> None:
    rig = SharingRig(file_of(tmp_path / "directory.toml"))
    rig.feed._authority = OneByOne(rig.authority, REFUSED)
    assert rig.refresh()
    with pytest.raises(DsError, match="Paris is not wanted") as caught:
        take_in(rig, '[[sites]]\nname = "Paris"\n')
    assert "were made" not in str(caught.value)
    assert known(rig) == []


EXISTS = Refused(DirectoryOperationResult.OBJECT_ALREADY_EXISTS, "Paris is taken")
SITE = '[[sites]]\nname = "Paris"\n'
MACHINE = '[[machines]]\nname = "BETA"\nguid = "5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b13"\n'
QUEUE = "[[queues]]\npath = 'BETA\\paris'\nguid = '5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b14'\n"


@pytest.mark.parametrize(
    ("cause", "text", "error", "words"),
    [
        (REFUSED, SITE, DsError, "the directory refused to make the change: Paris is not wanted"),
        (EXISTS, SITE, DsError, "the directory has such an object: Paris is taken"),
        (EXISTS, QUEUE, QueueExists, "the directory refused to make the change: Paris is taken"),
    ],
)
def test_a_refusal_says_what_stands_in_the_way(
    tmp_path: Path, cause: Exception, text: str, error: type[QueueError], words: str
) -> None:
    rig = SharingRig(file_of(tmp_path / "directory.toml"))
    rig.feed._authority = OneByOne(rig.authority, cause)
    assert rig.refresh()
    take_in(rig, MACHINE)
    with pytest.raises(error) as caught:
        take_in(rig, text)
    assert type(caught.value) is error
    assert caught.value.cause == words


@pytest.mark.parametrize("is_shared", [True, False])
def test_an_import_keeps_the_times_of_new_objects(tmp_path: Path, is_shared: bool) -> None:
    rig = SharingRig(file_of(tmp_path / "directory.toml")) if is_shared else Rig()
    if isinstance(rig, SharingRig):
        assert rig.refresh()
    text = """
[[machines]]
name = "BETA"
guid = "5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b13"
created = 2017-07-14T02:40:00Z
modified = 2018-01-01T00:00:00Z
[[machines]]
name = "GAMMA"
guid = "5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b14"
created = 2100-01-01T00:00:00Z
modified = 2100-01-01T00:00:00Z
[[machines]]
name = "DELTA"
guid = "5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b15"
"""
    take_in(rig, text)
    found = {
        one.computer_name: (one.create_time, one.modify_time)
        for one in rig.manager.directory.queues.directory.all_known(objects.QueueManager)
    }
    now = rig.clock.utc_seconds
    assert found["BETA"] == (OLD, 1_514_764_800)
    assert found["GAMMA"] == found["DELTA"] == (now, now)
