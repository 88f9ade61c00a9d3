"""Completes the keys of a queue manager whose home was made by version 0.1.

That version made one RSA key for each provider, for encryption, and published it for signatures as
well. [MS-MQDMPR] 3.1.3 has keys of their own for signatures.
"""

from __future__ import annotations

import asyncio

from posthouse.engine.manager import QueueManager
from posthouse.protocols.engine_calls import Answer
from posthouse.runtime.logs import Log
from posthouse.runtime.loop import Loop
from posthouse.security.certificates import make_private_keys


async def add_signing_keys(desk: Loop, log: Log) -> None:
    """Makes the signing keys that are missing, in a thread, and publishes them."""
    certificates = desk.manager.certificates
    providers = certificates.providers_without_signing_key()
    if not providers:
        return
    bits = certificates.key_bits
    made = await asyncio.get_running_loop().run_in_executor(
        None, make_private_keys, providers, bits
    )

    def publish(manager: QueueManager) -> None:
        manager.certificates.add_signing_keys(made)

    def told(answer: Answer) -> None:
        if answer.error is None:
            log.info("signing_keys_made", providers=len(made))
        else:
            log.warning("signing_keys_not_made", cause=answer.error)

    desk.decide(publish, told)
