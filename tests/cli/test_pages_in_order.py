"""The shell blocks of a page, in the order in which a reader types them, in a fresh home.

Other tests run single commands of these pages with a queue manager that has what they need. Here
nothing is there but what the page itself makes and what GIVEN lists: so a page that names a user, a
queue or a file that it did not make is noticed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.conftest import Posthouse
from tests.cli.page_lines import DOCS, lines_of, run_line
from tests.client.serving import serving

PASSWORD = b"correct horse 7\n"
NO_WINDOWS = "asks a Windows machine (tests/cli/test_moving.py has one that is played)"
NOT_RUN = {
    "posthouse top": "goes on until a key is pressed",
    "posthouse migrate": NO_WINDOWS,
    "posthouse message copy orders 'DIRECT=OS:winhost": "copies to a Windows machine",
    "posthouse context create prod": "names a queue manager elsewhere",
    "posthouse cert import alice.p12": "takes a file that another program has made",
    "posthouse cert trust bob.cer": "takes a file that Windows has made",
    "posthouse cert trust beta.json": "takes a file that another queue manager has made",
    "posthouse cert delete ID": "ID stands for an identifier of the list",
    "posthouse send 'PRIVATE=5b7a": "names a queue of another machine",
    "posthouse receive orders --raw > order.xml || case": "is a statement of the shell",
    "  4) echo": "goes on with it",
    "  *) exit": "goes on with it",
    "esac": "ends it",
    "/opt/posthouse/bin/pip install": "installs",
    "kadmin": "asks a Kerberos server",
    "posthouse job server": "goes on until Ctrl-C (tests/cli/test_job.py)",
    "posthouse job watch": "waits for a server of jobs",
    "posthouse job submit REPORTS monthly.sql": "takes a file of the reader's",
    "posthouse job submit REPORTS order.json": "takes a file of the reader's",
    "posthouse job submit REPORTS model.py": "takes a file of the reader's",
    "posthouse pipeline": "needs Spark (tests/spark)",
    "posthouse message show './private$/orders' 17": "17 stands for a lookup id",
    "posthouse decode": "takes files of the reader's (tests/formats/test_examples.py)",
}


class Page(NamedTuple):
    """What is there before the first line of a page is typed."""

    files: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


PAGES = {
    "daily.md": Page(commands=("queue create orders",)),
    "failures.md": Page(
        commands=(
            "queue create error --transactional",
            "queue create orders --transactional",
            "send orders --body x",
            "message move orders 'orders;poison' --where 'priority < 8'",
        )
    ),
    "formats.md": Page(commands=("queue create orders", "send orders --body x")),
    "moving-from-msmq.md": Page(files=("password.txt",)),
    "qms.md": Page(files=("password.txt", "query.sql")),
    "security.md": Page(files=("password.txt",)),
    "tracing.md": Page(commands=("queue create orders",)),
}


OTHER_PAGES = {
    "api.md": "tests/process/test_api_examples.py runs it in order",
    "captures.md": "records what passes on a network",
    "commands.md": "is printed from the program",
    "domains.md": "needs domain controllers",
    "first-hour.md": "tests/process/test_first_hour.py runs it in order",
    "pipelines.md": "needs Spark (tests/spark/test_examples.py)",
    "production.md": "installs a service; tests/process/test_production.py runs the rest",
    "remote-read.md": "asks a Windows machine; tests/client/test_remote_read_docs.py plays one",
    "scan.md": "asks Windows machines; tests/cli/test_scan.py plays them",
    "spark-clusters.md": "needs clusters of Spark (tests/any_spark)",
    "spark.md": "needs Spark (tests/spark/test_examples.py)",
    "srmp.md": "posts with curl; tests/process/test_srmp_peers.py runs it",
    "troubleshooting.md": "each section is a symptom (tests/cli/test_troubleshooting.py)",
    "windows-peers.md": "asks a Windows machine",
}
"""Pages with shell blocks that are not run here, and why."""


def typed(page: str) -> list[str]:
    """The lines of all shell blocks of a page; one that goes on in the next is one line."""
    lines = "\n".join(line for part in lines_of(page).values() for line in part)
    return [line for line in lines.replace("\\\n", " ").splitlines() if line.strip()]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_works_from_its_first_line_to_its_last(
    page: str, posthouse: Posthouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POSTHOUSE_HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in PAGES[page].files:
        Path(name).write_bytes(PASSWORD)
    with serving(home):
        for command in PAGES[page].commands:
            assert run_line(posthouse, f"posthouse {command}", {}).code == 0
        for line in typed(page):
            if line.startswith(tuple(NOT_RUN)):
                continue
            done = run_line(posthouse, line, {})
            assert done.code == 0, (line, done)


def test_each_line_that_is_not_run_is_on_a_page() -> None:
    lines = [line for page in PAGES for line in typed(page)]
    assert [one for one in NOT_RUN if not any(line.startswith(one) for line in lines)] == []


def test_each_page_with_commands_is_run_or_has_a_reason() -> None:
    pages = {path.name for path in DOCS.glob("*.md") if lines_of(path.name)}
    assert pages == {*PAGES, *OTHER_PAGES}, "run it here, or add why not"
    for reason in OTHER_PAGES.values():
        for test in re.findall(r"tests/\S+\.py", reason):
            assert (DOCS.parent / test).is_file(), test
