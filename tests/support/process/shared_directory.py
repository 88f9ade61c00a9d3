"""Settings and entries of a directory that several servers share."""

from __future__ import annotations

from posthouse.wire.binary.change_notification import Notification, pack_notification

# Nothing is read of itself: what a test has done it has taken in.
SETTINGS = """
[directory]
file = "{path}"
refresh_s = 3600
online_s = 3600
lock_wait_s = 1
notify_s = 0
sites_update_s = 1
site_gates_update_s = 1
notify_interval_s = 0
addresses = ["127.0.0.1:@PORT@"]
"""


MACHINE = "[[machines]]\nname = '{name}'\nguid = '{guid}'\n"


OWN_QUEUE = "[[queues]]\npath = 'ALPHA\\{name}'\nguid = '{guid}'\n"


NEWS = pack_notification(Notification(2, b"q" * 16, "BETA"))
