"""The page's files, for anyone with the right Host. They come from the package, and have nothing of the user's."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import AsyncGenerator
from functools import lru_cache

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from corral.model.refusal import refuse
from corral.model.restore import Refusal

DIST = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "web", "dist")
_PART = 1 << 16
_NOT_BUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>corral</title></head>
<body><h1>corral</h1><p>The page was not built with this installation: run <code>make web</code> in the source
tree, or install a released package. The API under <code>/api</code> works.</p></body></html>
"""
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="none" stroke="#777" stroke-width="2" '
    'd="M2 4h12M2 8h12M4 2v12M12 2v12"/></svg>'
)


async def show_page(request: Request) -> Response:
    content = _read("index.html")
    if content is None:
        return Response(_NOT_BUILT, 503, media_type="text/html")
    return Response(content, media_type="text/html", headers={"Cache-Control": "no-cache"})


async def show_asset(request: Request) -> Response:
    name: str = request.path_params["name"]
    parts = name.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise refuse(Refusal.NOT_FOUND, "there is no such file")
    content = _read(os.path.join("assets", *parts))
    if content is None:
        raise refuse(Refusal.NOT_FOUND, "there is no such file")
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    # The name has a hash of the content: under one name, the content never changes.
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "Content-Length": str(len(content))}
    return StreamingResponse(_in_parts(content), media_type=kind, headers=headers)


async def _in_parts(content: bytes) -> AsyncGenerator[bytes]:
    """Sent as fast as the client reads: a slow one must not make the server keep a whole copy."""
    for begin in range(0, len(content), _PART):
        yield content[begin : begin + _PART]


async def show_icon(request: Request) -> Response:
    return Response(_read("favicon.svg") or _ICON, media_type="image/svg+xml")


@lru_cache(maxsize=256)
def _read_once(name: str, modified_ns: int) -> bytes:
    with open(os.path.join(DIST, name), "rb") as file:
        return file.read()


def _read(name: str) -> bytes | None:
    """From memory; read again after a build."""
    path = os.path.join(DIST, name)
    try:
        if not os.path.realpath(path).startswith(os.path.realpath(DIST) + os.sep):
            return None
        return _read_once(name, os.stat(path).st_mtime_ns)
    except OSError:
        return None
