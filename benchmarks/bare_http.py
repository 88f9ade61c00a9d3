"""A bare aiohttp handler: reads a request's body and answers 200. What HTTP alone costs here.

`python -m benchmarks.bare_http PORT`
"""

from __future__ import annotations

import sys

from aiohttp import web

BODY_MAX = 8 << 20


async def take(request: web.Request) -> web.Response:
    """Nothing is looked at and nothing is kept."""
    await request.read()
    return web.Response()


def main(port: int) -> None:
    """Serves until it is stopped."""
    application = web.Application(client_max_size=BODY_MAX)
    application.router.add_post("/{path:.*}", take)
    web.run_app(application, host="127.0.0.1", port=port, access_log=None, print=None)


if __name__ == "__main__":
    main(int(sys.argv[1]))
