"""Clock, disk and network for seeded simulation; part of the product, for `posthouse selftest`.

Nothing here reads a clock, an address or the environment: every choice follows from the seed
that `SimDisk` and `SimNetwork` are built with and from the calls made since. To replay a failure:

1. A simulated run prints its seed when it fails; `repr()` of a disk or network shows it as well.
2. Build the same objects with that seed and run the same script. `SimDisk.operations`,
   `SimDisk.pending()` and `SimNetwork.trace` come out the same, line by line, so the first
   difference between a good and a bad run can be looked for.
3. A disk that came out of `crash()` has a seed of its own, drawn from the crash: replay from the
   first disk on, or hand `contents()` of the crashed one to `SimDisk(files=...)`.
4. Keep the seed, or better the shortest script, as a regression test.
"""

from posthouse.sim.clock import SimClock, Timer
from posthouse.sim.disk import Policy, SimDisk, SimFile
from posthouse.sim.faults import Kind, Operation, PowerLost
from posthouse.sim.network import (
    Address,
    Conditions,
    Connection,
    Endpoint,
    Line,
    Reason,
    SimNetwork,
)

__all__ = [
    "Address",
    "Conditions",
    "Connection",
    "Endpoint",
    "Kind",
    "Line",
    "Operation",
    "Policy",
    "PowerLost",
    "Reason",
    "SimClock",
    "SimDisk",
    "SimFile",
    "SimNetwork",
    "Timer",
]
