"""Clock, disk and network for seeded simulation."""

from posthouse.sim.disk import SimDisk, SimFile
from posthouse.sim.faults import Operation, PowerLost

__all__ = ["Operation", "PowerLost", "SimDisk", "SimFile"]
