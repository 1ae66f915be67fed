"""The files of the page, and the headers with which they are served."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

_TYPES: Final[Mapping[str, bytes]] = {
    "html": b"text/html; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "svg": b"image/svg+xml",
    "txt": b"text/plain; charset=utf-8",
}
POLICY: Final = "; ".join(
    (
        *("default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'"),
        *("base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"),
    )
)
"""Content-Security-Policy: nothing but the page's own files, and no connection but to its own server."""
SECURITY_HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class StaticFile(NamedTuple):
    """A file of the page."""

    body: bytes
    type: bytes


def static_files() -> dict[str, StaticFile]:
    """Return the page's files by URL path; ``/`` is the page itself."""
    found = dict(_walked(files("cathedra.page") / "static", "/"))
    found["/"] = found["/index.html"]
    return found


def _walked(folder: Traversable, path: str) -> Iterator[tuple[str, StaticFile]]:
    for one in folder.iterdir():
        if one.is_dir():
            yield from _walked(one, f"{path}{one.name}/")
        elif (kind := _TYPES.get(one.name.rpartition(".")[2])) is not None:
            yield f"{path}{one.name}", StaticFile(one.read_bytes(), kind)
