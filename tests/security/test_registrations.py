"""Records of certificates and keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import IllegalUser, InvalidParameter, RemoteProtocolError
from posthouse.model.message_values import AES_PROVIDER
from posthouse.security.keys import pack_provider_keys
from posthouse.security.registrations import (
    MachineRegistration,
    UserRegistration,
    decode_machine_registration,
    decode_user_registration,
    encode_registration,
)
from posthouse.security.sids import LOCAL_SYSTEM, OWNER_RIGHTS, PRINCIPALS, make_sid
from tests.security.key_ring import certificate, provider_key

ALICE = make_sid(5, 21, 1, 2, 3, 1000)
GUID = b"g" * 16


def user(sid: bytes = ALICE, data: bytes = b"certificate") -> UserRegistration:
    return UserRegistration(sid=sid, certificate=data, identifier=GUID, created_s=1)


def machine(
    guid: bytes = GUID, name: str = "BETA", public_keys: bytes = b"", data: bytes = b"x"
) -> MachineRegistration:
    return MachineRegistration(
        guid=guid, name=name, created_s=1, certificate=data, public_keys=public_keys
    )


def test_records_come_back_as_they_were() -> None:
    keys = pack_provider_keys([provider_key(AES_PROVIDER, "beta")])
    whole = machine(public_keys=keys, data=certificate("beta")).checked()
    assert decode_machine_registration(encode_registration(whole)) == whole
    assert whole.provider_keys == (provider_key(AES_PROVIDER, "beta"),)
    assert decode_user_registration(encode_registration(user())) == user().checked()


@pytest.mark.parametrize("sid", [*PRINCIPALS.values(), LOCAL_SYSTEM, OWNER_RIGHTS, b"", b"no sid"])
def test_groups_and_the_system_have_no_certificates(sid: bytes) -> None:
    with pytest.raises(IllegalUser):
        user(sid).checked()


@pytest.mark.parametrize(
    "wrong",
    [
        machine(guid=bytes(16)),
        machine(guid=b"short"),
        machine(name=""),
        machine(name="a\nb"),
        machine(name="x" * 257),
        machine(data=b""),
        machine(data=bytes(0x10000)),
        machine(public_keys=b"rubbish"),
    ],
)
def test_impossible_machines_are_refused(wrong: MachineRegistration) -> None:
    with pytest.raises(InvalidParameter):
        wrong.checked()


@given(st.binary(max_size=100))
def test_any_bytes_are_a_record_or_damage(data: bytes) -> None:
    for decode in (decode_user_registration, decode_machine_registration):
        with pytest.raises(RemoteProtocolError):
            decode(data)
