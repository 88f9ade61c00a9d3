"""How an extra is added to this installation, from the place that it was installed from.

Error texts name a command that works today. The name `posthouse` is free on the package index, so
no text asks to install anything from there by that name: a stranger who registers it would run code
on these machines. A test over all texts and pages holds that.
"""

from __future__ import annotations

import json
import shlex
import sys
from functools import cache
from urllib.parse import unquote, urlsplit

_IN_A_CHECKOUT = "."


@cache
def install(extra: str) -> str:
    """Return the command that adds an extra."""
    source = _source()
    pip = f"{shlex.quote(sys.executable or 'python3')} -m pip install"
    if source == _IN_A_CHECKOUT:
        return f"{pip} '.[{extra}]' in a checkout of Posthouse"
    if "+" in source.partition("://")[0]:
        return f"{pip} {shlex.quote(f'posthouse[{extra}] @ {source}')}"
    return f"{pip} {shlex.quote(f'{source}[{extra}]')}"


def install_there(extra: str = "spark") -> str:
    """Return the remedy for what a queue manager lacks; its clients may be elsewhere."""
    return f"Install it where the queue manager runs: {install(extra)}"


def _source() -> str:
    """Return what was installed (PEP 610): a folder, a wheel, or a repository."""
    from importlib.metadata import PackageNotFoundError, distribution  # slow, and for errors only

    try:
        text = distribution("posthouse").read_text("direct_url.json")
    except PackageNotFoundError:
        text = None
    try:
        found = json.loads(text or "{}")
        url, vcs = str(found.get("url", "")), found.get("vcs_info")
    except (ValueError, AttributeError):
        return _IN_A_CHECKOUT
    if vcs:
        return f"{vcs.get('vcs', 'git')}+{url}@{vcs.get('commit_id', '')}".rstrip("@")
    parts = urlsplit(url)
    return unquote(parts.path) if parts.scheme == "file" else _IN_A_CHECKOUT
