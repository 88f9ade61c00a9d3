"""Operations on a directory, and what a sequence of them leaves."""

from posthouse.directory.objects import (
    Enterprise,
)
from posthouse.directory.service import (
    DirectoryTimers,
)
from tests.directory.world import (
    Local,
    World,
    guid,
    machine,
    private,
    queue,
    service_of,
    site,
)

own = machine(1, "ALPHA", site_identifier_list=(guid(20),))


orders = queue(2, r"ALPHA\orders", label="local")


notes = private(3, r"ALPHA\private$\notes", 7)


class Set:
    """A directory with the own machine, its site, another machine, and the service on top."""

    def __init__(self, timers: DirectoryTimers | None = None, enterprise: bool = True) -> None:
        self.world = World()
        self.world.add(own, orders, site(20, "Berlin"), site(21, "Paris"), machine(5, "BETA"))
        if enterprise:
            self.world.add(Enterprise(identifier=guid(9)))
        self.local = Local(own, [orders, notes])
        self.service = service_of(self.world, self.local, timers)

    def cut(self) -> None:
        self.world.directory.connected = False

    def mend(self) -> None:
        self.world.directory.connected = True
