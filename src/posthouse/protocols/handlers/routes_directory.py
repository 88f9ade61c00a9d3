"""The part of the API that concerns users, public queues and places of the directory."""

from __future__ import annotations

from typing import Final

from posthouse.api import directory_names as tn
from posthouse.api.directory import DirectoryChangeJson
from posthouse.api.types import Nothing
from posthouse.protocols.handlers import directory_names as names
from posthouse.protocols.handlers.route import ADMINISTER, READ, Route, route

DIRECTORY_ROUTES: Final[tuple[Route, ...]] = (
    route(
        "GET",
        "/directory/queues",
        READ,
        names.find_queues,
        tn.PublicQueueListJson,
        tn.QueueSearchParams,
    ),
    route(
        "POST",
        "/directory/users",
        ADMINISTER,
        names.enter_user,
        DirectoryChangeJson,
        Nothing,
        tn.DirectoryUserBody,
    ),
    route("GET", "/directory/place", READ, names.show_place, tn.QueuePlaceJson, tn.PlaceParams),
)
