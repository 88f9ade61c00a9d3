"""The alerts and the dashboard of deploy/: a real server has every series that they ask for."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

import posthouse
from posthouse.cli import main
from posthouse.cli.verbs import commands
from tests.process.serving import Serving

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy" / "alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "posthouse.json"
SERIES = re.compile(r"\b(?:posthouse|process)_[a-z_]+\b")
SELECTOR = re.compile(r"\b((?:posthouse|process)_[a-z_]+)\{([^}]*)\}")
LABEL = re.compile(r'(\w+)=~?"([^"]*)"')

Labels = dict[str, str]


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(ALERTS.read_text("utf-8"))["groups"]
    return list(group["rules"])


def dashboard_expressions() -> list[str]:
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


EXPRESSIONS = [rule["expr"] for rule in rules()] + dashboard_expressions()


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The metrics of a server that has a bit of everything."""
    home = tmp_path_factory.mktemp("monitored")
    with Serving(home, "--name", "ALPHA") as house:
        address = house.ready()["endpoints"]["admin"]
        with posthouse.connect(house.home) as manager:
            manager.create_queue(r".\private$\orders").send(b"one")
            manager.queue("DIRECT=TCP:127.0.0.1:9\\private$\\x").send(b"two", recoverable=True)
            manager.call("POST", "/job-queues", {"name": "PRINT"})
            token = manager.call("POST", "/tokens", {"role": "read"})["token"]
        request = urllib.request.Request(
            f"http://{address}/metrics", headers={"Authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return str(answer.read().decode())


@pytest.fixture(scope="module")
def shown(text: str) -> dict[str, list[Labels]]:
    """The series by name, with the labels of their samples."""
    found: dict[str, list[Labels]] = {}
    for family in text_string_to_metric_families(text):
        found.setdefault(family.name + ("_total" if family.type == "counter" else ""), [])
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.labels)
    return found


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=range(len(EXPRESSIONS)))
def test_a_server_has_every_series(expression: str, shown: dict[str, list[Labels]]) -> None:
    names = [name for name in SERIES.findall(expression) if not name.endswith("_info")]
    assert names or expression.startswith("up{")
    for name in names:
        assert name in shown, name


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=range(len(EXPRESSIONS)))
def test_a_server_has_every_label(expression: str, shown: dict[str, list[Labels]]) -> None:
    for name, selector in SELECTOR.findall(expression):
        wanted = {key: value for key, value in LABEL.findall(selector) if key != "instance"}
        if not wanted:
            continue
        assert any(
            all(re.fullmatch(value, labels.get(key, "")) for key, value in wanted.items())
            for labels in shown[name]
        ), (name, wanted)


def test_queues_have_a_short_name_and_a_kind(shown: dict[str, list[Labels]]) -> None:
    kinds = {one["name"]: one["kind"] for one in shown["posthouse_queue_messages"]}
    assert kinds["orders"] == "private"
    assert "dead_letter" in kinds.values()
    assert "outgoing" in kinds.values()


def test_the_process_its_python_its_disk_and_its_log_are_shown(
    shown: dict[str, list[Labels]],
) -> None:
    assert {
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_cpu_seconds_total",
    } <= set(shown)
    (python,) = shown["posthouse_python_info"]
    assert python["build"] in ("optimised", "distribution", "plain")
    assert python["version"] in python["about"]
    assert [one["state"] for one in shown["posthouse_store_bytes"]] == ["messages", "other"]


def test_every_command_that_an_alert_names_exists() -> None:
    known = set(dict(commands(main.program(), "posthouse")))
    for rule in rules():
        for named in re.findall(r"posthouse(?: [a-z]+)+", rule["annotations"]["description"]):
            assert named in known, (rule["alert"], named)


@pytest.mark.peer("promtool")
def test_prometheus_accepts_the_alerts() -> None:
    done = subprocess.run(
        ["promtool", "check", "rules", ALERTS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.peer("promtool")
def test_prometheus_accepts_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    recorded = [
        {"record": f"expression_{number}", "expr": expression.replace("$instance", ".*")}
        for number, expression in enumerate(dashboard_expressions())
    ]
    file = tmp_path / "dashboard.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": recorded}]}))
    done = subprocess.run(
        ["promtool", "check", "rules", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.peer("promtool")
def test_prometheus_can_read_the_metrics(text: str) -> None:
    """Exit code 1: cannot be read; 3: it would choose other names."""
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 3), done.stdout + done.stderr
