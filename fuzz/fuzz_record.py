"""Fuzz target: any bytes are a record of accounts, keys or the directory, or refused as damage."""

from collections.abc import Callable

from posthouse.directory.objects import Entry, Queue, QueueManager, decode_entry, encode_entry
from posthouse.model.errors import RemoteProtocolError
from posthouse.model.message_values import BASE_PROVIDER
from posthouse.security.accounts import (
    Account,
    Door,
    ScryptCost,
    Token,
    decode_account,
    decode_token,
    encode_record,
    make_verifier,
)
from posthouse.security.keys import (
    KEY_EXCHANGE,
    ProviderKey,
    PublicKey,
    UserCertificate,
    pack_provider_keys,
    pack_public_key,
    pack_user_certificates,
    unpack_provider_keys,
    unpack_public_key,
    unpack_user_certificates,
)
from posthouse.security.registrations import (
    MachineRegistration,
    UserRegistration,
    decode_machine_registration,
    decode_user_registration,
    encode_registration,
)
from posthouse.security.sids import EVERYONE, make_sid

READERS: tuple[Callable[[bytes], object], ...] = (
    decode_account,
    decode_token,
    decode_entry,
    decode_user_registration,
    decode_machine_registration,
    unpack_public_key,
    unpack_provider_keys,
    unpack_user_certificates,
)
KEY = pack_public_key(PublicKey(KEY_EXCHANGE, 512, 65537, bytes(64)))
ACCOUNT = Account(
    name="anna",
    rid=1000,
    sid=make_sid(5, 21, 1, 2, 3, 1000),
    groups=(EVERYONE,),
    doors=(Door.HTTP, Door.RPC),
    http=make_verifier("secret", bytes(16), ScryptCost(2, 1, 1)),
)
QUEUE = Queue(identifier=b"q" * 16, pathname=r"HOST\orders", label="orders")
SEEDS = [
    encode_record(ACCOUNT),
    encode_record(Token(id="01", user="anna", scopes=(("*", 4),), secret_sha256=bytes(32))),
    encode_entry(Entry(QUEUE, Queue.directory_attributes())),
    encode_entry(Entry(QueueManager(computer_name="HOST"), frozenset({"computer_name"}))),
    encode_registration(
        UserRegistration(sid=EVERYONE, certificate=b"DER", identifier=b"c" * 16, created_s=1)
    ),
    encode_registration(MachineRegistration(guid=b"m" * 16, name="HOST", created_s=1)),
    KEY,
    pack_provider_keys([ProviderKey(BASE_PROVIDER, 1, KEY)]),
    pack_user_certificates([UserCertificate.of(b"DER")]),
]


def fuzz_one(data: bytes) -> bool:
    """Offers the bytes to every reader."""
    return sum(_reads(reader, data) for reader in READERS) > 0


def _reads(reader: Callable[[bytes], object], data: bytes) -> bool:
    try:
        reader(data)
    except RemoteProtocolError:
        return False
    return True
