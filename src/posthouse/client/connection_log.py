"""Write what happens to connections to the logger `posthouse` of the `logging` module.

Lines hold names, addresses and reasons; tokens, passwords and messages never. Nothing calls this
with a lock of the client in hand: a handler may use the session itself.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from posthouse.model.errors import QueueError

if TYPE_CHECKING:
    from logging import Logger

NAME: Final = "posthouse"


def _logger() -> Logger | None:
    """Return the logger; None in a program without `logging`, which is not loaded for this."""
    logging = sys.modules.get("logging")
    if logging is None:
        return None
    logger: Logger = logging.getLogger(NAME)
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger


def _reason(error: Exception) -> str:
    cause = getattr(error, "cause", "") or str(error) or type(error).__name__
    name = f"{error.name}: " if isinstance(error, QueueError) else ""
    return f"{name}{cause}".rstrip(". ")


def log_lost(manager: str, error: Exception, patience_s: float) -> None:
    """Warn that a connection is lost, and that others are tried for `patience_s`."""
    if (logger := _logger()) is not None:
        words = "The connection to %s is lost: %s. Trying to restore it for up to %g s."
        logger.warning(words, manager, _reason(error), patience_s)


def log_attempt(manager: str, error: Exception) -> None:
    """Note an attempt that failed."""
    if (logger := _logger()) is not None:
        logger.info("There is no connection to %s yet: %s.", manager, _reason(error))


def log_restored(manager: str, after_s: float) -> None:
    """Note that there is a connection again."""
    if (logger := _logger()) is not None:
        logger.info("The connection to %s is restored after %.1f s.", manager, after_s)


def log_given_up(manager: str, error: Exception) -> None:
    """Warn that no other attempt is made, and that what waited fails."""
    if (logger := _logger()) is not None:
        words = "The connection to %s is not restored: %s. What waited for it has failed."
        logger.warning(words, manager, _reason(error))
