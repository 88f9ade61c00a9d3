"""`[security]`: settings of message security.

The elements of [MS-MQQB] 3.1.1.3 that 3.1.3.1 gives values to, and what decision 54 adds.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from posthouse.model.message_values import EncryptionAlgorithm, HashAlgorithm
from posthouse.model.settings_kinds import (
    DAY_S,
    Section,
    meaning,
    within,
)

HashWord = Literal["sha1", "sha256", "sha512"]
AdvancedWord = Literal["aes128", "aes192", "aes256"]
EnhancedWord = Literal["rc2", "rc4"]
RepeatsWord = Literal["same-address", "refuse"]
SAME_ADDRESS: Final = "same-address"

HASHES: Final[dict[str, int]] = {
    "sha1": HashAlgorithm.SHA1,
    "sha256": HashAlgorithm.SHA_256,
    "sha512": HashAlgorithm.SHA_512,
}
CIPHERS: Final[dict[str, int]] = {
    "aes128": EncryptionAlgorithm.AES128,
    "aes192": EncryptionAlgorithm.AES192,
    "aes256": EncryptionAlgorithm.AES256,
    "rc2": EncryptionAlgorithm.RC2,
    "rc4": EncryptionAlgorithm.RC4,
}


class MessageSecuritySettings(Section, frozen=True):
    """Signed and encrypted messages."""

    weak_algorithms: Annotated[
        bool,
        meaning(
            "Accepts MD2, MD4 and MD5 signatures, 40-bit keys and RSA keys below 1,024 bits "
            "of others. They are never sent."
        ),
    ] = False
    hash_algorithm: Annotated[
        HashWord, meaning("Hash of signatures if a message does not name an allowed one.")
    ] = "sha512"
    advanced_algorithm: Annotated[
        AdvancedWord, meaning("Cipher for receivers that have an AES key.")
    ] = "aes256"
    enhanced_algorithm: Annotated[
        EnhancedWord, meaning("Cipher for receivers without an AES key.")
    ] = "rc4"
    reject_40_bit_rc2: Annotated[
        bool, meaning("Refuses RC2 keys of the Enhanced provider of which only 40 bits are used.")
    ] = True
    key_bits: Annotated[
        int, within(1024, 4096, "Size of the RSA keys that `posthouse cert create` makes.")
    ] = 2048
    receive_key_cache_size: Annotated[
        int, within(1, 100_000, "Number of keys of received messages in the cache.")
    ] = 127
    send_key_cache_size: Annotated[
        int,
        within(1, 100_000, "Number of keys of sent messages in the cache, which are used again."),
    ] = 53
    certificate_cache_size: Annotated[
        int, within(1, 100_000, "Number of verified certificates in the cache.")
    ] = 53
    symmetric_key_lifetime_s: Annotated[
        int, within(1, DAY_S, "Time for which a key stays in the cache.")
    ] = 600
    certificate_lifetime_s: Annotated[
        int, within(1, DAY_S, "Time for which a verified certificate stays in the cache.")
    ] = 1200
    signed_history_s: Annotated[
        int,
        within(
            0,
            365 * DAY_S,
            "Time for which the signatures of messages in authenticated queues are kept. A "
            "copy under another identifier from another address is refused as a replay. 0: "
            "copies are not refused.",
        ),
    ] = 7 * DAY_S
    signed_history_max: Annotated[
        int,
        within(
            1, 10_000_000, "Number of those signatures that are kept. The oldest are dropped first."
        ),
    ] = 100_000
    signed_repeats: Annotated[
        RepeatsWord,
        meaning(
            "Whether a sender may send the same signed content again under another "
            "identifier: from the same address, or not at all. Content that includes its "
            "message id under the signature is never accepted twice."
        ),
    ] = SAME_ADDRESS

    @property
    def signing_hash(self) -> int:
        """HashAlgorithm of what we sign, where a message names none that may be used."""
        return HASHES[self.hash_algorithm]

    @property
    def preferred_advanced_algorithm(self) -> int:
        """PreferredAdvancedAlgorithm."""
        return CIPHERS[self.advanced_algorithm]

    @property
    def preferred_enhanced_algorithm(self) -> int:
        """PreferredEnhancedAlgorithm."""
        return CIPHERS[self.enhanced_algorithm]
