"""A SPARK_HOME in which Python workers start quickly.

Workers import PySpark from an archive in Spark's home, where it is compiled again by every process
that starts: a second each, and more on a busy machine. In a home without that archive they import
the PySpark that is installed, which is compiled.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

PARTS: Final = ("bin", "jars", "sbin", "conf", "data")


def cache_folder() -> Path:
    """Where things are kept that can be made again: the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "posthouse"


def spark_home() -> Path | None:
    """Links to the installed PySpark without its archive of itself; None where that would not do.

    It does for workers on this machine that run this Python, and find PySpark among its packages.
    """
    import pyspark

    installed = Path(pyspark.__file__).resolve().parent
    if not (_is_package(installed) and (installed / "jars").is_dir()):
        return None
    if os.environ.get("PYSPARK_PYTHON", sys.executable) != sys.executable:
        return None
    home = cache_folder() / "spark" / sha256(os.fsencode(installed)).hexdigest()[:16]
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        for part in PARTS:
            if (installed / part).exists():
                with suppress(FileExistsError):  # of an earlier time, or of another process
                    (home / part).symlink_to(installed / part)
    except OSError:  # no cache to write to: as it was
        return None
    return home


def _is_package(installed: Path) -> bool:
    """Whether every process of this Python finds it, whatever this one has on its path."""
    places = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)  # workers have it too
    places.update(Path(name).resolve() for name in named if name)
    return installed.parent in places
