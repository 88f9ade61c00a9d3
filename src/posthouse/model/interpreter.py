"""Reports which Python runs this and how it was built: an unoptimised build is a quarter slower.

`posthouse --version`, the metrics and each benchmark name it, so that figures can be compared.
"""

from __future__ import annotations

import platform
import sys
import sysconfig
from typing import Final

OPTIMISED: Final = "optimised"
DISTRIBUTION: Final = "distribution"  # optimised as a rule; its own records do not show it
PLAIN: Final = "plain"

_PROFILED: Final = ("--enable-optimizations", "--with-lto")
_SHOWN: Final = (*_PROFILED, "--enable-shared", "--with-pydebug", "--disable-gil")
_OPTIMISING: Final = ("-fprofile-use", "-flto")
_LEVELS: Final = ("-O0", "-O1", "-O2", "-O3", "-Og", "-Os")


def build(arguments: str, flags: str, prefix: str) -> str:
    """How an interpreter was built, by what it records of that.

    `arguments` are those of its `configure`, `flags` those of its compiler.
    """
    if any(word in arguments for word in _PROFILED) or any(word in flags for word in _OPTIMISING):
        return OPTIMISED
    return DISTRIBUTION if prefix == "/usr" else PLAIN


def shown_flags(arguments: str, flags: str) -> list[str]:
    """Those of its flags that decide how fast it is."""
    levels = [word for word in flags.split() if word in _LEVELS]
    return [*levels[-1:], *(word for word in _SHOWN if word in arguments)]


def this_build() -> str:
    """How this interpreter was built."""
    return build(*_recorded(), sys.base_prefix)


def describe() -> str:
    """This interpreter in a few words."""
    name, version = platform.python_implementation(), platform.python_version()
    words = [f"{this_build()} build", *shown_flags(*_recorded())]
    return f"{name} {version}, {', '.join(words)}"


def _recorded() -> tuple[str, str]:
    found = sysconfig.get_config_vars("CONFIG_ARGS", "PY_CORE_CFLAGS")
    arguments, flags = (str(one or "") for one in found)
    return arguments, flags
