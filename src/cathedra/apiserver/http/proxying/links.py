"""Links of pages that come through the sub-resource ``proxy``: they have to lead back through it.

A page says ``/style.css`` and means its own server; a browser would ask the API server. So paths get the prefix of the
proxy, those to other hosts and relative ones stay. Pages are walked once, from tag to tag; what is no proper tag ends
the walk, and the rest stays as it is (``pkg/util/proxy/transport.go`` of k8s.io/apimachinery).
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import urlsplit, urlunsplit

__all__ = ["through", "with_links"]

_LINKS: Final = {
    b"a": (b"href",),
    b"applet": (b"codebase",),
    b"area": (b"href",),
    b"audio": (b"src",),
    b"base": (b"href",),
    b"blockquote": (b"cite",),
    b"body": (b"background",),
    b"button": (b"formaction",),
    b"command": (b"icon",),
    b"del": (b"cite",),
    b"embed": (b"src",),
    b"form": (b"action",),
    b"frame": (b"longdesc", b"src"),
    b"head": (b"profile",),
    b"html": (b"manifest",),
    b"iframe": (b"longdesc", b"src"),
    b"img": (b"longdesc", b"src", b"usemap"),
    b"input": (b"src", b"usemap", b"formaction"),
    b"ins": (b"cite",),
    b"link": (b"href",),
    b"object": (b"classid", b"codebase", b"data", b"usemap"),
    b"q": (b"cite",),
    b"script": (b"src",),
    b"source": (b"src",),
    b"video": (b"poster", b"src"),
}
_RAW: Final = frozenset({b"iframe", b"noembed", b"noframes", b"script", b"style", b"textarea", b"title", b"xmp"})
"""Elements whose content is no markup."""
_NAME: Final = re.compile(rb"<([a-zA-Z][^\s/>]*)")
_DELIMITER: Final = re.compile(rb"[>\"']")
_ATTRIBUTE: Final = re.compile(rb"([^\s=>/\"'][^\s=>/]*)\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s>\"']+)")


def through(prefix: str, host: str) -> Callable[[str], str]:
    """How links are changed on a page of the server ``host`` (with port) that is seen under ``prefix``."""

    def changed(link: str) -> str:
        try:
            parts = urlsplit(link)
        except ValueError:
            return link
        if parts.netloc not in ("", host) or not parts.path.startswith("/") or parts.path.startswith(prefix):
            return link
        return urlunsplit(("", "", f"{prefix}{parts.path}", parts.query, parts.fragment))

    return changed


def with_links(page: bytes, change: Callable[[str], str]) -> bytes:
    """The page with its links changed."""
    pieces = []
    done = 0
    for start, end, link in _links(page):
        new = change(link)
        if new != link:
            pieces += [page[done:start], b'"', html.escape(new).encode("latin-1", "xmlcharrefreplace"), b'"']
            done = end
    return b"".join((*pieces, page[done:]))


def _links(page: bytes) -> Iterator[tuple[int, int, str]]:
    """Where the values of attributes that hold links begin and end, quotes included, and the links."""
    position = 0
    while (start := page.find(b"<", position)) >= 0:
        position = _behind(page, start)
        if position < 0:
            return
        found = _NAME.match(page, start)
        if found is None:
            continue
        name = found[1].lower()
        wanted = _LINKS.get(name, ())
        for attribute in _ATTRIBUTE.finditer(page, found.end(), position) if wanted else ():
            if attribute[1].lower() in wanted:
                value = attribute[2].strip(b"\"'").decode("latin-1")
                yield *attribute.span(2), html.unescape(value)
        if name in _RAW:
            closing = re.compile(rb"</" + re.escape(name), re.IGNORECASE).search(page, position)
            if closing is None:
                return
            position = closing.start()


def _behind(page: bytes, start: int) -> int:
    """Where the tag or comment that begins at ``start`` ends; less than 0 if it does not."""
    if page.startswith(b"<!--", start):
        end = page.find(b"-->", start + 4)
        return end + 3 if end >= 0 else -1
    if not page[start + 1 : start + 2].isalpha() and page[start + 1 : start + 2] not in (b"/", b"!", b"?"):
        return start + 1  # a mere «less than»
    position = start + 1
    while (found := _DELIMITER.search(page, position)) is not None:
        if found[0] == b">":
            return found.end()
        closing = page.find(found[0], found.end())
        if closing < 0:
            return -1
        position = closing + 1
    return -1
