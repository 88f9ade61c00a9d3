"""What is kept of the queue manager itself ([MS-MQDMPR] 3.1.1.1)."""

from __future__ import annotations

import msgspec


class ManagerRecord(msgspec.Struct, omit_defaults=True):
    """The persistent attributes of the queue manager itself ([MS-MQDMPR] 3.1.1.1)."""

    identifier: bytes
    create_time: int
    sequence_timestamp: int  # of TxSequenceIDs: installation, or the last restore
    initialization_retry_s: int = 120
    last_domain: bytes = b""
    directory_server_list: list[str] = []
    directory_integrated: bool = True
    srmp_http_support: bool = False
    srmp_pgm_support: bool = False
    hardened_security: bool = False
    starts: int = 0


MANAGER_KEY = b"manager"
encode_manager = msgspec.msgpack.Encoder().encode
decode_manager = msgspec.msgpack.Decoder(ManagerRecord).decode
