"""Settings of an engine by their names in `posthouse.toml`, in whatever section they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from posthouse.engine.settings import EngineSettings

SECTIONS = ("queue_manager", "directory", "transactions", "limits", "binary", "srmp", "qms")


def engine_settings(name: str = "ALPHA", **changes: Any) -> EngineSettings:
    """The defaults but for these: see `changed`."""
    return changed(EngineSettings(name), **changes)


def changed(settings: EngineSettings, **changes: Any) -> EngineSettings:
    """With other values. A name that several sections have is that of the first of them; with the
    name of its section in front, such as `directory_addresses`, it is that section's."""
    quota_kib = changes.pop("machine_quota_kib", None)  # as the directory sets it
    own: dict[str, Any] = {}
    for name, value in changes.items():
        if name in EngineSettings.__dataclass_fields__ and name != "default_access":
            own[name] = value
        else:
            section, key = _place(settings, name)
            known = own.get(section, getattr(settings, section))
            own[section] = msgspec.structs.replace(known, **{key: value})
    made = replace(settings, **own)
    return made if quota_kib is None else made.with_machine_quota(quota_kib)


def _place(settings: EngineSettings, name: str) -> tuple[str, str]:
    for section in SECTIONS:
        fields = getattr(settings, section).__struct_fields__
        for key in (name, name.removeprefix(f"{section}_")):
            if key in fields:
                return section, key
    raise KeyError(f"no section has {name}")
