"""The rig itself: a message goes in, comes out, and survives a kill."""

from tests.engine.rig import Rig


def test_a_message_goes_through_and_the_books_balance() -> None:
    rig = Rig()
    rig.create("orders")
    rig.send("orders", b"one")
    rig.send("orders", b"two")
    assert rig.receive("orders").packet.endswith(b"one\0")
    rig.restart()
    assert rig.bodies("orders") == [b"two"]
    rig.check_books()
