"""Messages that go out twice on one session, before a pause and behind it."""

from __future__ import annotations

from tests.protocols.binary.session_rig import ack
from tests.support.sending_end import SendingEnd, bits, numbered


def test_one_acknowledgment_for_both_copies_of_a_message() -> None:
    end = SendingEnd()
    number = end.put(*numbered(1, 9))
    end.open(window=4)
    end.attach(number)
    end.receive(ack(upto=2, base=1, flags=3, window=4))
    before = end.bodies_sent()
    assert before == numbered(1, 6)
    end.session.detach(number)  # what was fetched ahead is given back
    end.attach(number)
    end.receive(ack(upto=2, window=64))
    again = end.bodies_sent()
    assert again == numbered(3, 9)
    count = len(before) + len(again)
    end.receive(ack(upto=count, base=3, flags=bits(count - 2)))
    assert end.session.is_open
    assert end.waiting() == []
    end.machine.check_books()


def test_a_queue_that_was_on_another_session_meanwhile_goes_on_here() -> None:
    end = SendingEnd()
    number = end.put(*numbered(1, 2))
    end.open(window=2)
    end.attach(number)
    assert end.bodies_sent() == numbered(1, 2)
    end.session.detach(number)
    other = end.machine.run(lambda manager: manager.transfer.begin_sending(number))
    end.machine.run(lambda manager: other.end())
    end.put(b"3")
    end.attach(number)
    end.receive(ack(upto=2, base=1, flags=3))
    assert b"3" in end.bodies_sent()
