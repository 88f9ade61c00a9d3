"""Connectors: programs that hand messages to another messaging system, and bring messages in.

`Connector` reads the connector queues of a foreign site and reports what became of each message;
`Inlet` sends messages of the foreign system, each once. docs/connector.md shows both.
"""

from posthouse.connector.bridge import Connector as Connector
from posthouse.connector.deliveries import Parcel as Parcel
from posthouse.connector.deliveries import Refused as Refused
from posthouse.connector.incoming import Incoming as Incoming
from posthouse.connector.incoming import Inlet as Inlet

__all__ = ["Connector", "Incoming", "Inlet", "Parcel", "Refused"]
