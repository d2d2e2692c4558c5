"""A terminal server as terminado's own documentation shows one: named terminals, one socket each. Runs in its own venv."""

from __future__ import annotations

import asyncio
import sys

import tornado.web
from terminado import NamedTermManager, TermSocket


async def main() -> None:
    manager = NamedTermManager(shell_command=sys.argv[1:], max_terminals=1000)
    app = tornado.web.Application([(r"/terminals/(\w+)", TermSocket, {"term_manager": manager})])
    server = app.listen(0, "127.0.0.1")
    (listener,) = server._sockets.values()
    print(listener.getsockname()[1], flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
