"""The packets in tests/vectors, as bytes."""

from pathlib import Path

VECTORS = Path(__file__).parent.parent / "vectors"


def vector(name: str) -> bytes:
    """The bytes of a vector file; lines that start with # are remarks."""
    lines = (VECTORS / f"{name}.hex").read_text("ascii").splitlines()
    return bytes.fromhex(" ".join(line for line in lines if not line.startswith("#")))


USER_MESSAGE = vector("ms-mqqb/4.1.7-user-message")
