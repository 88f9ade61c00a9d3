"""The examples of docs/api.md, run with curl as they are printed, and its tables."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from prometheus_client.parser import text_string_to_metric_families

from posthouse.api.route import PREFIX
from posthouse.model.filters import FIELDS
from posthouse.protocols.binary.protocol import BinaryFigures
from posthouse.protocols.handlers.route_functions import BINDINGS
from posthouse.protocols.http.query_runs import QueryRuns
from posthouse.protocols.metrics.binary import binary_metrics
from tests.protocols.admin.api_rig import ApiRig, with_api

PAGE = (Path(__file__).parent.parent.parent / "docs" / "api.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.peer("curl")
def test_every_example_works_as_printed() -> None:
    """The answers are those of a server on the port and in the home that the page names."""
    with TemporaryDirectory(prefix="ph-") as folder:  # short: the path of a socket has a limit
        _run_examples(Path(folder))


def _run_examples(folder: Path) -> None:
    async def work(rig: ApiRig) -> None:
        home = folder / "user" / ".local" / "share"
        home.mkdir(parents=True)
        (home / "posthouse").symlink_to(folder / "home")
        rig.admin.services.query = QueryRuns(rig.admin, None).run
        lines = ["set -eo pipefail", *BLOCKS, "echo finished"]
        script = "\n".join(lines).replace("http://127.0.0.1:8816", rig.url)
        process = await asyncio.create_subprocess_exec(
            "bash",
            "-c",
            script,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={"HOME": str(folder / "user"), "PATH": "/usr/local/bin:/usr/bin:/bin"},
        )
        output, errors = await process.communicate()
        assert process.returncode == 0, (output[-300:], errors, rig.faults)
        assert output.endswith(b"finished\n")
        assert b'"error":{' not in output
        assert await rig.labels() == ["order 3"]

    (folder / "home").mkdir()
    with_api(folder / "home", work)


def test_every_path_is_in_the_table() -> None:
    rows = [
        f"| `{route.method} {route.path.removeprefix(PREFIX)}` | {route.role.value} | {summary} |"
        for route, _, summary, _ in BINDINGS
    ]
    assert "\n".join(rows) in PAGE


def test_every_field_of_filters_is_named() -> None:
    filters = PAGE.partition("## Filters")[2].partition("\n## ")[0]
    for field in FIELDS:
        assert f"`{field}`" in filters, field


def test_every_metric_is_named(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> str:
        return (await rig.get("/metrics")).text

    shown = {family.name for family in text_string_to_metric_families(with_api(tmp_path, work))}
    shown |= {family.name for family in binary_metrics(_figures())}
    for name in shown:
        assert f"`{name}" in PAGE, name


def _figures() -> BinaryFigures:
    directions = ("packets", "bytes", "messages")
    return BinaryFigures(
        {}, {}, {}, {}, {f"{of}_{way}": 0 for of in directions for way in ("in", "out")}, 0, 0
    )
