"""The directory as one document for people: names instead of identifiers.

Several queue managers share a directory by importing the same document, or by reading the same
file. It holds every attribute of every object; those that are as usual are left out.
"""

from posthouse.directory.document.parts import AliasPart as AliasPart
from posthouse.directory.document.parts import AnyPart as AnyPart
from posthouse.directory.document.parts import Document as Document
from posthouse.directory.document.parts import EnterprisePart as EnterprisePart
from posthouse.directory.document.parts import LinkPart as LinkPart
from posthouse.directory.document.parts import ListPart as ListPart
from posthouse.directory.document.parts import MachinePart as MachinePart
from posthouse.directory.document.parts import NetworkPart as NetworkPart
from posthouse.directory.document.parts import QueuePart as QueuePart
from posthouse.directory.document.parts import SitePart as SitePart
from posthouse.directory.document.parts import UserPart as UserPart
from posthouse.directory.document.reading import Difference as Difference
from posthouse.directory.document.reading import difference as difference
from posthouse.directory.document.reading import objects_of as objects_of
from posthouse.directory.document.writing import Holdings as Holdings
from posthouse.directory.document.writing import Names as Names
from posthouse.directory.document.writing import described as described
from posthouse.directory.document.writing import part_of as part_of
from posthouse.directory.document.writing import title_of as title_of
