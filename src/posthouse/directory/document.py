"""The directory as one document that people read, keep and exchange: names instead of identifiers.

Several queue managers share a directory by importing the same document, or by reading the same
file. It holds every attribute of every object; those that are as usual are left out.
"""

from posthouse.directory.document_parts import AliasPart as AliasPart
from posthouse.directory.document_parts import AnyPart as AnyPart
from posthouse.directory.document_parts import Document as Document
from posthouse.directory.document_parts import EnterprisePart as EnterprisePart
from posthouse.directory.document_parts import LinkPart as LinkPart
from posthouse.directory.document_parts import ListPart as ListPart
from posthouse.directory.document_parts import MachinePart as MachinePart
from posthouse.directory.document_parts import NetworkPart as NetworkPart
from posthouse.directory.document_parts import QueuePart as QueuePart
from posthouse.directory.document_parts import SitePart as SitePart
from posthouse.directory.document_parts import UserPart as UserPart
from posthouse.directory.document_reading import Difference as Difference
from posthouse.directory.document_reading import difference as difference
from posthouse.directory.document_reading import objects_of as objects_of
from posthouse.directory.document_writing import Holdings as Holdings
from posthouse.directory.document_writing import Names as Names
from posthouse.directory.document_writing import described as described
from posthouse.directory.document_writing import part_of as part_of
from posthouse.directory.document_writing import title_of as title_of
