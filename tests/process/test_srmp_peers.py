"""Real programs on the other end of HTTP: curl posts, nginx stands in between."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from posthouse.model.message import ACK_REACH_QUEUE, ACK_RECEIVE
from tests.process.nginx import Nginx
from tests.process.offices import ADMIN, free_port, wait_for_delivery, wait_until
from tests.process.srmp_offices import HOST, HttpOffice, redirect

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "srmp.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
COUNT = 20


@pytest.fixture
def running() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


# -- curl


@pytest.mark.peer("curl")
@pytest.mark.spec("MC-MQSRM 2.1.1/1", "MC-MQSRM 3.1.5.1.5/12")
def test_curl_posts_a_message_as_the_page_prints_it(tmp_path: Path, running: ExitStack) -> None:
    office = HttpOffice(tmp_path / "ALPHA", "ALPHA", running)
    script = "\n".join(["set -eo pipefail", *EXAMPLES]).replace(f"{HOST}:10080", office.base[7:])
    home = str(office.server.home)
    path = f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={"PATH": path, "HOME": str(tmp_path), "POSTHOUSE_HOME": home},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    message = json.loads(done.stdout.splitlines()[-1])
    assert message["body_text"] == '<order customer="7"/>'
    assert message["label"] == "order 7"
    assert message["delivery"] == "recoverable"


def curl(*words: str) -> tuple[int, str]:
    """The status that it was answered with, and what was said."""
    done = subprocess.run(
        ["curl", "-s", "-w", "\n%{http_code}", *words], capture_output=True, text=True, timeout=30
    )
    body, _, status = done.stdout.rpartition("\n")
    return int(status), body


@pytest.mark.peer("curl")
@pytest.mark.spec("MC-MQSRM 2.1.1/6", "MC-MQSRM 3.1.5.1.2/1")
def test_curl_is_told_what_is_wrong(tmp_path: Path, running: ExitStack) -> None:
    office = HttpOffice(tmp_path / "ALPHA", "ALPHA", running)
    url = f"{office.base}/msmq/private$/orders"
    office.create("orders")
    for method in ("GET", "PUT", "DELETE", "TRACE"):
        assert curl("-X", method, url)[0] == 405
    assert curl("--data-binary", "hello", url)[0] == 400
    large = tmp_path / "large"
    large.write_bytes(bytes(3 << 20))  # curl asks first: Expect: 100-continue
    assert curl("-H", "Expect: 100-continue", "--data-binary", f"@{large}", url)[0] == 400
    assert office.bodies("orders") == []


# -- nginx


class Couple:
    """Two servers, and nginx in front of the second."""

    def __init__(self, folder: Path, running: ExitStack) -> None:
        target = free_port()
        self.nginx = Nginx(folder / "nginx", target, running)
        trust = f'authorities = "{self.nginx.certificate}"\n'
        self.alpha = HttpOffice(folder / "ALPHA", "ALPHA", running, more=trust)
        rules = redirect(
            inbound={
                f"http://{HOST}:{self.nginx.plain}/*": f"http://{HOST}:{target}/*",
                f"https://localhost:{self.nginx.tls}/*": f"http://{HOST}:{target}/*",
            }
        )
        self.bravo = HttpOffice(folder / "BRAVO", "BRAVO", running, http_port=target, more=rules)
        self.bravo.create("orders")
        self.bravo.create("ledger", transactional=True)
        self.alpha.create(ADMIN)

    def send(self, base: str) -> None:
        """Durable ones with receipts, and a stream."""
        bodies = [b"%d" % number for number in range(COUNT)]
        qm, admin = self.alpha.qm, self.alpha.name_of(ADMIN)
        qm.queue(f"DIRECT={base}/msmq/private$/orders").send_many(
            bodies, recoverable=True, admin_queue=admin, ack="pos-arrival,pos-receive"
        )
        with qm.transaction() as tx:
            qm.queue(f"DIRECT={base}/msmq/private$/ledger").send_many(bodies, tx=tx)
        wait_for_delivery([self.alpha])
        for queue in ("orders", "ledger"):
            assert self.bravo.bodies(queue) == bodies
        for _ in range(COUNT):
            self.bravo.qm.queue(r".\private$\orders").receive(0)
        wait_for_delivery([self.bravo])
        wait_until(lambda: self._receipts() == COUNT * 2, self._receipts)

    def _receipts(self) -> int:
        found = list(self.alpha.qm.queue(f".\\private$\\{ADMIN}").browse())
        assert {message.message_class for message in found} <= {ACK_REACH_QUEUE, ACK_RECEIVE}
        return len(found)


@pytest.mark.peer("nginx")
@pytest.mark.spec("MC-MQSRM 2.1.1/5", "MC-MQSRM 3.1.5.1.3/5")
def test_messages_go_through_nginx_as_a_reverse_proxy(tmp_path: Path, running: ExitStack) -> None:
    couple = Couple(tmp_path, running)
    couple.send(f"HTTP://{HOST}:{couple.nginx.plain}")
    assert len(couple.nginx.requests()) >= COUNT * 2


@pytest.mark.peer("nginx")
@pytest.mark.spec("MC-MQSRM 2.1.1/3")
def test_messages_go_encrypted_to_nginx_and_on_from_there(
    tmp_path: Path, running: ExitStack
) -> None:
    couple = Couple(tmp_path, running)
    couple.send(f"HTTPS://localhost:{couple.nginx.tls}")
    assert len(couple.nginx.requests()) >= COUNT * 2
