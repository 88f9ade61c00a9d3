"""Connectors: programs that hand messages to another messaging system, and bring messages in.

`Connector` reads the connector queues of a foreign site and says of each message what became of it;
`Inlet` sends messages of the foreign system, each once. docs/connector.md shows both.
"""

from posthouse.connector.bridge import Connector as Connector
from posthouse.connector.inlet import Incoming as Incoming
from posthouse.connector.inlet import Inlet as Inlet
from posthouse.connector.parcels import Parcel as Parcel
from posthouse.connector.parcels import Refused as Refused

__all__ = ["Connector", "Incoming", "Inlet", "Parcel", "Refused"]
