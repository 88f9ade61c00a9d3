"""deploy/Dockerfile, read for tests."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def dockerfile() -> list[list[str]]:
    """The instructions of the image, each in words."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def instructions(name: str) -> list[list[str]]:
    return [line[1:] for line in dockerfile() if line[0] == name]
