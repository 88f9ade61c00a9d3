"""What an operator may choose of message security: `[security]` of the configuration."""

from typing import Final, Literal

from msgspec import Struct

from posthouse.model.message_values import EncryptionAlgorithm, HashAlgorithm

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


class MessageSecuritySettings(Struct, frozen=True, kw_only=True):
    """The elements of [MS-MQQB] 3.1.1.3 that 3.1.3.1 gives values to, and what decision 54 adds."""

    weak_algorithms: bool = False
    hash_algorithm: HashWord = "sha512"
    advanced_algorithm: AdvancedWord = "aes256"
    enhanced_algorithm: EnhancedWord = "rc4"
    reject_40_bit_rc2: bool = True
    key_bits: int = 2048
    receive_key_cache_size: int = 127
    send_key_cache_size: int = 53
    certificate_cache_size: int = 53
    symmetric_key_lifetime_s: int = 600
    certificate_lifetime_s: int = 1200
    signed_history_s: int = 7 * 24 * 3600
    signed_history_max: int = 100_000
    signed_repeats: RepeatsWord = SAME_ADDRESS

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
