"""Connections that break leave nothing in memory, and what is left all the same is found in time.

Here the server has no collector of circles, so each circle stays. In the soak test it has one, as
usual, and thousands of connections break at once.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import posthouse
from tests.conftest import Dose
from tests.process.broken_connections import Breaker, kinds
from tests.process.crowd import Prober, resident_bytes
from tests.process.nginx import make_certificate
from tests.process.offices import wait_until
from tests.process.serving import Serving

PATIENCE_S = 3.0
SETTINGS = '[https]\ncertificate = "https.pem"\nprivate_key = "https.key"\n'
WITHOUT_COLLECTOR = """
import gc
from posthouse.runtime import garbage_collection as collection

gc.disable()
collection.LOOK_S = 1e9
"""
# On a signal: circles that were put aside, and a file once they are gone.
WITH_CIRCLES = """
import gc, pathlib, signal, weakref
from posthouse.runtime import garbage_collection as collection

collection.LOOK_S, collection.SHARE = 0.5, 1.0

class Circle:
    def __init__(self):
        self.itself = self

def put_aside(number, frame):
    at_rest = number == signal.SIGUSR1
    collection.REST_S, collection.TRAFFIC_S = (0.3, 1e9) if at_rest else (1e9, 0.3)
    circles = [Circle() for _ in range(2 * collection.LONG_COLLECTION)]
    gc.freeze()
    weakref.finalize(circles[-1], pathlib.Path(__file__).with_name("found").touch)

signal.signal(signal.SIGUSR1, put_aside)
signal.signal(signal.SIGUSR2, put_aside)
"""
RELEASED_S = 150.0  # memory goes back to the system once a minute, and is looked at every 10 s
QUEUE = r".\private$\q"


class Street:
    """A server, with something that Python runs in it before it starts."""

    def __init__(
        self, folder: Path, stack: ExitStack, first: str = "", settings: str = SETTINGS
    ) -> None:
        (folder / "home").mkdir()
        (folder / "home" / "posthouse.toml").write_text(settings)
        (folder / "sitecustomize.py").write_text(first)
        make_certificate(folder / "home" / "https.pem", folder / "home" / "https.key")
        server = Serving(folder, "--name", "ALPHA", PYTHONPATH=str(folder))
        self.server = stack.enter_context(server)
        self.endpoints = self.server.ready()["endpoints"]
        self.qm = stack.enter_context(posthouse.connect(home=self.server.home))
        self.qm.create_queue(QUEUE)
        self.kinds = kinds(self.qm.call("POST", "/tokens", {"role": "operate"})["token"])

    def breaker(self, name: str, at_once: int, *, tls: bool = False) -> Breaker:
        endpoint, sent = self.kinds[name]
        return Breaker(self.endpoints[endpoint], sent, at_once, tls=tls or endpoint == "https")

    def breaks(self, breaker: Breaker, count: int, mib: int) -> None:
        """Breaks so many connections, and looks at what they leave."""
        breaker.run(50)
        before = self.resident
        breaker.run(count)
        self.has_let_go(before, mib)

    @property
    def resident(self) -> int:
        return resident_bytes(self.server.process.pid)

    def has_let_go(self, before: int, mib: int, patience_s: float = PATIENCE_S) -> None:
        """Waits until hardly more is resident than before."""
        wait_until(
            lambda: self.resident - before < mib << 20,
            lambda: f"{(self.resident - before) >> 10} KiB more",
            patience_s,
        )


@pytest.fixture(scope="module")
def street(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Street]:
    with ExitStack() as stack:
        yield Street(tmp_path_factory.mktemp("street"), stack, WITHOUT_COLLECTOR)


@pytest.mark.parametrize("name", kinds(""))
def test_a_connection_that_breaks_leaves_nothing(street: Street, dose: Dose, name: str) -> None:
    street.breaks(street.breaker(name, at_once=10), dose(150, 5_000), dose(6, 10))


def test_a_connection_with_tls_leaves_nothing_either(tmp_path: Path, dose: Dose) -> None:
    settings = SETTINGS.replace("https]", "admin]")
    with ExitStack() as stack:
        street = Street(tmp_path, stack, WITHOUT_COLLECTOR, settings)
        breaker = street.breaker("admin get and garbage", at_once=10, tls=True)
        street.breaks(breaker, dose(50, 5_000), dose(6, 10))


@pytest.mark.soak
@pytest.mark.parametrize("name", kinds(""))
def test_thousands_at_once_leave_nothing(tmp_path: Path, name: str) -> None:
    with ExitStack() as stack:
        street = Street(tmp_path, stack)
        breaker, begun = street.breaker(name, at_once=1_000), street.resident
        breaker.run(1_000)
        street.has_let_go(begun, 25, RELEASED_S)  # pieces that so many at a time leave, once
        before = street.resident
        breaker.run(5_000)
        street.has_let_go(before, 10, RELEASED_S)


def test_circles_that_were_put_aside_are_found_at_rest_and_during_traffic(tmp_path: Path) -> None:
    """The endpoints are the usual ones, with what they do by themselves."""
    found = tmp_path / "found"
    with ExitStack() as stack:
        street = Street(tmp_path, stack, WITH_CIRCLES)
        street.server.process.send_signal(signal.SIGUSR1)
        wait_until(found.exists, street.server.log)
        assert street.qm.queue(QUEUE).count() == 0  # the step of the server is over
        found.unlink()
        stack.enter_context(Prober(street.qm, QUEUE))
        street.server.process.send_signal(signal.SIGUSR2)
        wait_until(found.exists, street.server.log)
