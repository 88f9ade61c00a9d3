"""Fuzz target: any text is a name of a queue or refused; what is read is printed and read back."""

import random

from posthouse.model.errors import IllegalFormatName, IllegalQueuePathname
from posthouse.model.names import DirectName, PathName, direct_from_wire, parse_name

GUID = "0d2b1c5e-7a44-4f0e-9d54-6a1f30c5b7aa"
NAMES = (
    r".\private$\orders",
    r"HOST\private$\orders;poison",
    r"HOST\system$;deadxact",
    r"HOST\orders;journal",
    r"DIRECT=OS:host\private$\orders;poison",
    r"DIRECT=TCP:[fe80::1%eth0]:41801\private$\orders",
    r"DIRECT=TCP:192.168.1.7\private$\orders;journal",
    "DIRECT=HTTPS://host:8443/msmq/private$/orders",
    f"PRIVATE={GUID}\\0000000d;journal",
    f"PUBLIC={GUID}",
    f"MACHINE={GUID};deadletter",
    f"CONNECTOR={GUID};xactonly",
    f"DL={GUID}@example.com",
    "MULTICAST=234.1.1.1:8001",
    f"DIRECT=OS:a\\b,PUBLIC={GUID},DL={GUID}",
)
PIECES = (*"\\/;:,=.[]%@$\0 ßſİ\udc80",)
SEEDS = [name.encode() for name in NAMES]


def fuzz_one(data: bytes) -> bool:
    """Reads a name, prints it and reads it again."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        name = parse_name(text)
    except (IllegalFormatName, IllegalQueuePathname):
        return False
    again = parse_name(str(name))
    assert (again, again.key) == (name, name.key)
    if isinstance(name, DirectName):
        assert direct_from_wire(name.wire) == name
        assert name.path is None or PathName.parse(str(name.path)) == name.path
    return True


def mutate(seed: bytes, chance: random.Random) -> bytes:
    """The name with parts of itself or of others in the wrong place."""
    text = seed.decode()
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(len(text) + 1)
        other = chance.choice(NAMES)
        start = chance.randrange(len(other))
        piece = chance.choice((chance.choice(PIECES), other[start : start + 9], "", text.upper()))
        text = text[:at] + piece + text[at + chance.choice((0, 1, 1, 5)) :]
    return text.encode("utf-8", "surrogateescape")
