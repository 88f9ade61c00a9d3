"""Where a lake is: a folder of a file system that is mounted here, or an object store."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from posthouse.model.errors import InvalidParameter

NO_OPTIONS: Final[Mapping[str, str]] = {}
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_STORES: Final = ("s3", "s3a", "gs", "az", "adl", "abfs", "abfss", "azure")


class LakePlace(NamedTuple):
    """The folder of a lake, or its address in an object store and what opens that store."""

    folder: Path | None
    address: str = ""
    options: Mapping[str, str] = NO_OPTIONS

    def __str__(self) -> str:
        return self.uri

    @property
    def uri(self) -> str:
        """As `deltalake` takes it."""
        return self.address if self.folder is None else str(self.folder)

    @property
    def store_options(self) -> dict[str, str] | None:
        """As `deltalake` takes them."""
        return dict(self.options) if self.folder is None else None

    def file_system(self) -> Any:
        """The object store as a file system of Arrow."""
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import PyFileSystem

        return PyFileSystem(DeltaStorageHandler(self.uri, self.store_options))


def lake_place(path: str | os.PathLike[str], options: Mapping[str, str] | None = None) -> LakePlace:
    """A folder that this machine and every executor see under the same name, or an address."""
    text = os.fspath(path)
    if text.startswith("file:"):
        text = unquote(text.removeprefix("file://").removeprefix("file:"))
    found = _SCHEME.match(text)
    if found is None:
        folder = Path(text).expanduser().absolute()
        if not text or (folder.exists() and not folder.is_dir()):
            what = f"{folder} is a file" if text else "its path is empty"
            raise InvalidParameter(f"a lake is a folder, and {what}", "Name a folder.")
        return LakePlace(folder)
    if found[1].lower() not in _STORES:
        raise InvalidParameter(
            f"a lake cannot lie at {text}",
            f"It is a folder that is mounted here, or an address of {', '.join(_STORES)}.",
        )
    return LakePlace(None, text.rstrip("/"), options or NO_OPTIONS)
