"""A home whose keys were made by version 0.1 gets keys for signatures when it is served."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from posthouse.engine.ledger.records import TABLE_ACCOUNT, Change
from posthouse.engine.manager import QueueManager
from posthouse.engine.settings import EngineSettings
from posthouse.model.message_values import AES_PROVIDER, ENHANCED_PROVIDER
from posthouse.runtime.embedded import EmbeddedQueueManager
from posthouse.runtime.serve import STOPPED, Outcome
from posthouse.security.keys import KEY_SIGNATURE, unpack_provider_keys, unpack_public_key
from tests.security.key_ring import certificate, private_key
from tests.support.serve_rig import Rig, Visit, end

SIGNING_FIELDS = ("signing_keys", "sealed_signing_keys")


def written_by_version_0_1(rig: Rig) -> bytes:
    """Keys for encryption only, in the form of that version; returns them as they are published."""

    def write(manager: QueueManager) -> bytes:
        keys = {name: private_key(name) for name in (AES_PROVIDER, ENHANCED_PROVIDER)}
        manager.directory.queues.own_signing_keys = (
            manager.directory.queues.own_keys
        )  # as that version did
        own = manager.certificates.publish(keys, certificate(AES_PROVIDER), {})
        assert lists(manager) == (own.public_keys, own.public_keys)
        old = msgspec.to_builtins(own, builtin_types=(bytes,))
        for field in SIGNING_FIELDS:
            del old[field]
        change = Change()
        key = b"machine:" + own.guid
        manager.ledger.define(TABLE_ACCOUNT, key, msgspec.msgpack.encode(old), change)
        manager.ledger.commit(change)
        return own.public_keys

    with EmbeddedQueueManager(rig.home, settings=EngineSettings("ALPHA")) as embedded:
        return embedded.run(write)


def lists(manager: QueueManager) -> tuple[bytes, bytes]:
    own = manager.directory.own_queue_manager()
    return own.public_encryption_key_list, own.public_signing_key_list


@pytest.mark.spec("MS-MQDMPR 3.1.3/6")
def test_an_old_home_gets_signing_keys_once_and_keeps_the_rest(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "[security]\nkey_bits = 1024\n")
    encryption = written_by_version_0_1(rig)
    seen: list[tuple[bytes, bytes]] = []

    async def look(visit: Visit) -> None:
        seen.append(await visit.service.desk.run(lists))
        end()

    assert rig.run(look) == rig.run(look) == Outcome(STOPPED)
    assert seen[0] == seen[1]
    assert seen[0][0] == encryption
    made = unpack_provider_keys(seen[0][1])
    assert [one.provider_name for one in made] == [AES_PROVIDER, ENHANCED_PROVIDER]
    blobs = [unpack_public_key(one.blob) for one in made]
    assert {(one.algorithm, one.bit_length) for one in blobs} == {(KEY_SIGNATURE, 1024)}
    assert rig.events().count("signing_keys_made") == 1


def test_a_home_without_keys_gets_none(tmp_path: Path) -> None:
    rig = Rig(tmp_path)

    async def look(visit: Visit) -> None:
        assert await visit.service.desk.run(lists) == (b"", b"")
        end()

    assert rig.run(look) == Outcome(STOPPED)
    assert "signing_keys_made" not in rig.events()


def test_a_key_file_that_is_damaged_is_told_and_the_start_goes_on(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    encryption = written_by_version_0_1(rig)
    (rig.home / "keys" / "seal.key").write_bytes(b"short")

    async def look(visit: Visit) -> None:
        assert (await visit.service.desk.run(lists))[0] == encryption
        end()

    assert rig.run(look) == Outcome(STOPPED)
    assert "signing_keys_not_made" in rig.events()
