"""User accounts, access tokens and limits on guessing, as values that the store keeps.

Decision 14: one password, one verifier for each door the account was given. Secrets and salts
come in as arguments; nothing here draws random numbers or looks at a clock.
"""

import hashlib
import hmac
import re
import unicodedata
from collections.abc import Iterable
from enum import Enum
from typing import Final, Self

import msgspec

from posthouse.model.bounded_tables import Bounded
from posthouse.model.errors import IllegalUser, InvalidParameter, MalformedPacket
from posthouse.model.roles import Role
from posthouse.model.text import excerpt
from posthouse.security.access import Caller, Scopes
from posthouse.security.patterns import check_pattern
from posthouse.security.rights import QUEUE_GENERIC_ALL, parse_rights
from posthouse.security.role_rights import ROLE_RIGHTS
from posthouse.security.sids import ADMINISTRATORS, PRINCIPALS, is_sid

USER_NAME_LENGTH_MAX: Final = 64
USER_TEXT_LENGTH_MAX: Final = 4 * USER_NAME_LENGTH_MAX  # the same name, all of it decomposed
PASSWORD_LENGTH_MAX: Final = 1024
SALT_SIZE: Final = 16
TOKEN_SECRET_SIZE: Final = 32
TOKEN_ID_SIZE: Final = 8
SCOPES_MAX: Final = 256

# Letters and digits of any script, and a few signs that no list, path or pattern uses.
_USER_NAME = re.compile(r"[\w.@-]+")
_TOKEN_TEXT = re.compile(r"pht_([0-9a-f]{16})_([0-9a-f]{64})")
_SCRYPT_MEMORY_MAX = 256 << 20


class Door(Enum):
    """Where an account can log in."""

    HTTP = "http"
    RPC = "rpc"
    NCP = "ncp"


class ScryptCost(msgspec.Struct, frozen=True):
    """Cost of one password check (RFC 7914); kept with the verifier, so that it can grow."""

    n: int = 1 << 15
    r: int = 8
    p: int = 3

    @property
    def sound(self) -> bool:
        """Whether the numbers are ones that scrypt takes and this machine can afford."""
        power = self.n > 1 and not self.n & (self.n - 1)
        return power and 0 < self.r <= 64 and 0 < self.p <= 64 and self.memory <= _SCRYPT_MEMORY_MAX

    @property
    def memory(self) -> int:
        """Bytes that one check needs."""
        return 128 * self.r * (self.n + self.p + 2)


class ScryptVerifier(msgspec.Struct, frozen=True):
    """What is kept of a password for the http door."""

    cost: ScryptCost
    salt: bytes
    digest: bytes

    def accepts(self, password: str) -> bool:
        """Whether it is the password; takes the same time whatever differs."""
        if not self.cost.sound or not _usable(password):
            return False
        return hmac.compare_digest(self.digest, _scrypt(password, self.salt, self.cost))


DEFAULT_COST: Final = ScryptCost()
NO_PASSWORD: Final = ScryptVerifier(DEFAULT_COST, bytes(SALT_SIZE), bytes(32))
"""Accepts nothing; asked for unknown names, so that they take as long to refuse as known ones."""


def make_verifier(password: str, salt: bytes, cost: ScryptCost = DEFAULT_COST) -> ScryptVerifier:
    """The verifier of a new password."""
    assert len(salt) >= SALT_SIZE
    assert cost.sound
    if not _usable(password):
        raise InvalidParameter(f"a password has 1 to {PASSWORD_LENGTH_MAX} characters")
    return ScryptVerifier(cost, salt, _scrypt(password, salt, cost))


def _usable(password: str) -> bool:
    return 0 < len(password) <= PASSWORD_LENGTH_MAX


def _scrypt(password: str, salt: bytes, cost: ScryptCost) -> bytes:
    # A character can be typed composed or decomposed; one form makes them one password.
    secret = unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")
    return hashlib.scrypt(
        secret, salt=salt, n=cost.n, r=cost.r, p=cost.p, maxmem=2 * cost.memory, dklen=32
    )


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """A user of the queue manager.

    `rpc` and `ncp` hold the NT hash and the NetWare hash, sealed with a key file elsewhere; they
    are opaque here. A door without its verifier stays shut.
    """

    name: str
    rid: int
    sid: bytes
    groups: tuple[bytes, ...] = ()
    doors: tuple[Door, ...] = (Door.HTTP,)
    http: ScryptVerifier | None = None
    rpc: bytes = b""
    ncp: bytes = b""
    disabled: bool = False
    created_s: int = 0
    role: Role | None = None  # limits the user at every door; None: passwords reach to `operate`

    @property
    def key(self) -> str:
        """The name as it is compared: without regard to case."""
        return user_key(self.name)

    @property
    def is_administrator(self) -> bool:
        """Whether the account belongs to the Administrators group."""
        return ADMINISTRATORS in self.groups

    def opens(self, door: Door) -> bool:
        """Whether the account can log in at this door at all."""
        return door in self.doors and self.has_verifier(door) and not self.disabled

    def has_verifier(self, door: Door) -> bool:
        """Whether there is anything to compare a password with."""
        return bool({Door.HTTP: self.http, Door.RPC: self.rpc, Door.NCP: self.ncp}[door])

    def caller(self) -> Caller:
        """The account as the access check sees it, once its identity is proved."""
        caller = Caller.user(self.sid, self.name, self.groups)
        return caller if self.role is None else caller.narrowed(None, *ROLE_RIGHTS[self.role])

    def checked(self) -> Self:
        """The account itself, or a refusal that states what is wrong with it."""
        check_user_name(self.name)
        if not (is_sid(self.sid) and all(map(is_sid, self.groups))):
            raise IllegalUser(f"the account {excerpt(self.name)} has no valid SID")
        return self


def user_key(name: str) -> str:
    """Names that differ only in case, composition or width are the same account.

    Folding may undo the normal form, so that it is taken twice. What is too long for a name is
    left as it is: strangers send it, and the normal form of many marks takes quadratic time.
    """
    if len(name) > USER_TEXT_LENGTH_MAX:
        return name
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def check_user_name(name: str) -> None:
    """Refuses names that are empty, too long, unprintable or mean somebody else."""
    if not 0 < len(name) <= USER_NAME_LENGTH_MAX or not _USER_NAME.fullmatch(name):
        raise IllegalUser(
            f"{excerpt(name)} cannot be a user name",
            f"Use 1 to {USER_NAME_LENGTH_MAX} letters, digits or any of . _ - @",
        )
    if user_key(name) in PRINCIPALS or user_key(name).startswith("s-1-"):
        raise IllegalUser(f"{name} is a reserved name in access lists", "Choose another name.")


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """An access token of the admin endpoint; its secret is known to the holder alone."""

    id: str
    user: str
    role: Role = Role.READ
    scopes: Scopes | None = None
    expires_s: int | None = None
    secret_sha256: bytes
    created_s: int = 0
    of_service: bool = False  # of a job, with which it ends, and with every start

    def accepts(self, secret: bytes, now_s: int) -> bool:
        """Whether the secret is the right one and the token still valid."""
        right = hmac.compare_digest(self.secret_sha256, hashlib.sha256(secret).digest())
        return right and not self.expired(now_s)

    def expired(self, now_s: int) -> bool:
        """Whether its time is over."""
        return self.expires_s is not None and now_s >= self.expires_s

    def caller(self, account: Account) -> Caller:
        """The account of the token, narrowed to the queues of the token."""
        assert account.key == user_key(self.user)
        return account.caller().narrowed(self.scopes)


def token_text(token_id: bytes, secret: bytes) -> str:
    """The text of a token: a prefix that scanners for leaked secrets can find, id and secret.

    Choice: the secret has 256 random bits, so a plain hash of it is verifier enough.
    """
    assert len(token_id) == TOKEN_ID_SIZE
    assert len(secret) == TOKEN_SECRET_SIZE
    return f"pht_{token_id.hex()}_{secret.hex()}"


def split_token(text: str) -> tuple[str, bytes] | None:
    """Id and secret of a presented token; None for any other text."""
    match = _TOKEN_TEXT.fullmatch(text.strip())
    return (match[1], bytes.fromhex(match[2])) if match else None


def parse_scopes(items: Iterable[str]) -> Scopes | None:
    """The scopes of `--queue PATTERN=RIGHTS` options; None without any, which limits nothing."""
    scopes = []
    for item in items:
        pattern, equals, rights = item.rpartition("=")
        if not equals:
            pattern, mask = item, QUEUE_GENERIC_ALL
        else:
            mask = parse_rights(rights)
        scopes.append((check_pattern(pattern), mask))
    if len(scopes) > SCOPES_MAX:
        raise InvalidParameter(f"a token has at most {SCOPES_MAX} queue patterns")
    return tuple(scopes) or None


_ENCODER = msgspec.msgpack.Encoder()
_ACCOUNT = msgspec.msgpack.Decoder(Account)
_TOKEN = msgspec.msgpack.Decoder(Token)


def encode_record(value: Account | Token) -> bytes:
    """The bytes that the store keeps."""
    return _ENCODER.encode(value)


def decode_account(data: bytes) -> Account:
    """An account read back; anything else is damage."""
    try:
        return _ACCOUNT.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedPacket(f"damaged account record: {error}") from None


def decode_token(data: bytes) -> Token:
    """A token read back; anything else is damage."""
    try:
        return _TOKEN.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedPacket(f"damaged token record: {error}") from None


FREE_FAILURES: Final = 5
DELAY_FIRST_MS: Final = 1_000
DELAY_MAX_MS: Final = 15 * 60_000


def login_delay_ms(failures: int) -> int:
    """How long to wait after this many failures in a row: nothing for five, then it doubles."""
    if failures < FREE_FAILURES:
        return 0
    return min(DELAY_FIRST_MS << min(failures - FREE_FAILURES, 32), DELAY_MAX_MS)


class Failures(msgspec.Struct, frozen=True):
    """Failures in a row, and when the last one was."""

    count: int = 0
    last_ms: int = 0

    def wait_ms(self, now_ms: int) -> int:
        """How long the next attempt has to wait; 0 when it may be made."""
        return max(0, self.last_ms + login_delay_ms(self.count) - now_ms)


class LoginGuard:
    """Failures per account and address, so that a stranger cannot lock the owner out.

    Names come from strangers as well: what is too long for a name is kept no longer than one.
    """

    def __init__(self, entries_max: int = 10_000) -> None:
        self._failures: Bounded[tuple[str, str], Failures] = Bounded(entries_max)

    def wait_ms(self, name: str, address: str, now_ms: int) -> int:
        """How long this account has to wait at this address; checked before the password is."""
        return self._failures.get(_guessed(name, address), Failures()).wait_ms(now_ms)

    def failed(self, name: str, address: str, now_ms: int) -> None:
        """A wrong password; the oldest entry makes room where there are too many."""
        key = _guessed(name, address)
        before = self._failures.pop(key, Failures())
        self._failures[key] = Failures(before.count + 1, now_ms)

    def succeeded(self, name: str, address: str) -> None:
        """The right password: the count begins again."""
        self._failures.pop(_guessed(name, address), None)


def _guessed(name: str, address: str) -> tuple[str, str]:
    return user_key(name[: USER_NAME_LENGTH_MAX + 1]), address
