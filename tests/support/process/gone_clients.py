"""Waits until a server has noticed that its clients are gone."""

from __future__ import annotations

import time

import posthouse
from tests.process import shop

PATIENCE_S = 60.0


def wait_until_gone(qm: posthouse.QueueManagerClient) -> None:
    """The server has noticed: no transaction is left, and no message is in anybody's hands."""
    until = time.monotonic() + PATIENCE_S
    while qm.status().transactions or any(book.locked for book in qm.books().books):
        assert time.monotonic() < until, (qm.status(), qm.books())
        time.sleep(0.01)
    shop.check_balance(qm, locked=0)
