"""The routes of users, public queues and places of the directory."""

from __future__ import annotations

from typing import Final

from posthouse.api import directory_names as tn
from posthouse.api.directory import DirectoryChangeJson
from posthouse.api.route import ADMINISTER, READ, Route, route
from posthouse.api.types import Nothing

DIRECTORY_ROUTES: Final[tuple[Route, ...]] = (
    route(
        "GET",
        "/directory/queues",
        READ,
        "find_queues",
        tn.PublicQueueListJson,
        tn.QueueSearchParams,
    ),
    route(
        "POST",
        "/directory/users",
        ADMINISTER,
        "enter_user",
        DirectoryChangeJson,
        Nothing,
        tn.DirectoryUserBody,
    ),
    route("GET", "/directory/place", READ, "show_place", tn.QueuePlaceJson, tn.PlaceParams),
)
