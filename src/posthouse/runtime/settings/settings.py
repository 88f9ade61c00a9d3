"""All of `posthouse.toml`: each section is declared in the package that uses it.

Settings that do not exist are errors, because a setting that is ignored looks like one that works.
"""

from __future__ import annotations

from msgspec import Struct

from posthouse.directory.settings import DirectorySettings
from posthouse.engine.jobs.settings import QmsSettings
from posthouse.engine.settings import QueueManagerSettings, TransactionSettings
from posthouse.protocols.binary.settings import BinarySettings, PingSettings
from posthouse.protocols.http.settings import AdminSettings
from posthouse.protocols.ncp.settings import NcpSettings
from posthouse.protocols.pgm.settings import PgmSettings
from posthouse.protocols.remote_read.settings import EpmSettings, RemoteReadSettings
from posthouse.protocols.settings import LimitSettings
from posthouse.protocols.srmp.settings import HttpSettings, HttpsSettings, SrmpSettings
from posthouse.runtime.audit.settings import AuditSettings
from posthouse.runtime.log_settings import LogSettings
from posthouse.runtime.telemetry.settings import TelemetrySettings
from posthouse.security.settings import MessageSecuritySettings
from posthouse.store.settings import StoreSettings


class Settings(Struct, frozen=True):
    """The sections, by their names."""

    queue_manager: QueueManagerSettings = QueueManagerSettings()
    directory: DirectorySettings = DirectorySettings()
    transactions: TransactionSettings = TransactionSettings()
    store: StoreSettings = StoreSettings()
    limits: LimitSettings = LimitSettings()
    admin: AdminSettings = AdminSettings()
    binary: BinarySettings = BinarySettings()
    ping: PingSettings = PingSettings()
    rpc: RemoteReadSettings = RemoteReadSettings()
    epm: EpmSettings = EpmSettings()
    http: HttpSettings = HttpSettings()
    https: HttpsSettings = HttpsSettings()
    srmp: SrmpSettings = SrmpSettings()
    pgm: PgmSettings = PgmSettings()
    ncp: NcpSettings = NcpSettings()
    qms: QmsSettings = QmsSettings()
    security: MessageSecuritySettings = MessageSecuritySettings()
    log: LogSettings = LogSettings()
    audit: AuditSettings = AuditSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
