"""The cryptographic providers that the protocol names, [MS-MQQB] 3.1.5.8.3 and 3.1.7.1.5.

A provider is a name: it states which key pair of the receiver is used, which ciphers go with it and
how long their keys are. Nothing of Windows stands after it here.
"""

from typing import Final, NamedTuple

from posthouse.model.message_values import (
    AES_PROVIDER,
    BASE_PROVIDER,
    ENHANCED_PROVIDER,
    EncryptionAlgorithm,
)
from posthouse.security.keys import PROV_RSA_AES, PROV_RSA_FULL, PROVIDER_OF_PRIVACY_LEVEL

RC2: Final = int(EncryptionAlgorithm.RC2)
RC4: Final = int(EncryptionAlgorithm.RC4)
AES128: Final = int(EncryptionAlgorithm.AES128)
AES192: Final = int(EncryptionAlgorithm.AES192)
AES256: Final = int(EncryptionAlgorithm.AES256)

RSA_BITS_MIN: Final = 1024
"""Smaller RSA keys are taken only where weak algorithms are allowed (decision 54)."""
RSA_BITS_MIN_WEAK: Final = 512
RSA_BITS_MAX: Final = 8192  # what a stranger's key may cost


class CryptoProvider(NamedTuple):
    """A provider: its PrivacyLevel, its type and the key sizes of its ciphers in bytes."""

    name: str
    provider_type: int
    privacy_level: int
    key_sizes: dict[int, int]

    @property
    def weak(self) -> bool:
        """Whether its keys are those of the export rules of old: never sent (decision 54)."""
        return self.name == BASE_PROVIDER


BASE: Final = CryptoProvider(BASE_PROVIDER, PROV_RSA_FULL, 1, {RC2: 5, RC4: 5})
ENHANCED: Final = CryptoProvider(ENHANCED_PROVIDER, PROV_RSA_FULL, 3, {RC2: 16, RC4: 16})
AES: Final = CryptoProvider(AES_PROVIDER, PROV_RSA_AES, 5, {AES128: 16, AES192: 24, AES256: 32})
PROVIDERS: Final = {provider.name: provider for provider in (BASE, ENHANCED, AES)}
_BY_LEVEL: Final = {level: PROVIDERS[name] for level, name in PROVIDER_OF_PRIVACY_LEVEL.items()}
assert all(provider.privacy_level == level for level, provider in _BY_LEVEL.items())


def provider_of_level(privacy_level: int) -> CryptoProvider | None:
    """SelectedCSP of a received message, [MS-MQQB] 3.1.5.8.3; None for a level without one."""
    return _BY_LEVEL.get(privacy_level)
