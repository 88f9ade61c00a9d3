"""Messages that come over HTTP ([MC-MQSRM] 3.1.5.1)."""

from __future__ import annotations

from tests.engine.web import WebRig


def test_first() -> None:
    rig = WebRig()
    assert rig.post(rig.message(), body=b"hello") == [200]
    assert rig.bodies("orders") == [b"hello"]
    rig.post_stream(1, 2, 3)
    assert rig.bodies("streamed") == [b"1", b"2", b"3"]
    rig.advance(1)
    (receipt,) = rig.receipts()
    assert receipt.last_ordinal == 3
    rig.check_books()
