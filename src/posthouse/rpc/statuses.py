"""Status codes of faults, and reasons of refused binds (C706)."""

from typing import Final

# Faults (C706 appendix E and N; [MS-RPCE] 3.1.1.5.5)
ACCESS_DENIED: Final = 0x00000005
BAD_STUB_DATA: Final = 0x000006F7  # strict NDR checks end here
EPT_NOT_REGISTERED: Final = 0x000006D9  # as the API of Windows names it; on the wire the next one
EPT_NOT_REGISTERED_WIRE: Final = 0x16C9A0D6
OPNUM_OUT_OF_RANGE: Final = 0x1C010002
UNKNOWN_INTERFACE: Final = 0x1C010003
PROTOCOL_ERROR: Final = 0x1C01000B
SERVER_TOO_BUSY: Final = 0x1C010014
CONTEXT_MISMATCH: Final = 0x1C00001A
CANCELLED: Final = 0x1C00000D
UNSPECIFIED: Final = 0x1C000012
OUT_OF_MEMORY: Final = 0x1C00001B
SECURITY_PACKAGE: Final = 0x00000721

# Results and reasons of a presentation context (C706 12.6.3.1)
ACCEPTANCE: Final = 0
PROVIDER_REJECTION: Final = 2
NEGOTIATE_ACK: Final = 3  # [MS-RPCE] 2.2.2.4
ABSTRACT_SYNTAX_NOT_SUPPORTED: Final = 1
TRANSFER_SYNTAXES_NOT_SUPPORTED: Final = 2
LOCAL_LIMIT_EXCEEDED: Final = 3

# Reasons of a bind_nak
NAK_NOT_SPECIFIED: Final = 0
NAK_CONGESTION: Final = 1
NAK_PROTOCOL_VERSION: Final = 4
NAK_AUTHENTICATION_TYPE: Final = 8
NAK_INVALID_CHECKSUM: Final = 9


class Fault(Exception):
    """Ends a call with a fault PDU of that status, where a method raises it."""

    def __init__(self, status: int) -> None:
        super().__init__(f"fault 0x{status:08X}")
        self.status = status
