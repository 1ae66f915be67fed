"""Check of every link, anchor and resource of a built site, without a network.

Links to other hosts are allowed, because a reader follows them deliberately. Resources of other hosts are not: a page
loads nothing that it does not bring along.
"""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

__all__ = ["broken_links"]

_LOADED = {
    "img": "src",
    "script": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "object": "data",
}
_LOADING_RELATIONS = {"stylesheet", "icon", "preload", "modulepreload", "preconnect", "dns-prefetch", "manifest"}


class _Reference(NamedTuple):
    target: str
    loaded: bool


class _Page(HTMLParser):
    """Anchors and references of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.references: list[_Reference] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.references.append(_Reference(given["href"], loaded=False))
        if tag in _LOADED and given.get(_LOADED[tag]):
            self.references.append(_Reference(given[_LOADED[tag]], loaded=True))
        if tag == "link" and set(given.get("rel", "").split()) & _LOADING_RELATIONS:
            self.references.append(_Reference(given.get("href", ""), loaded=True))


def broken_links(site: Path, elsewhere: tuple[str, ...] = ()) -> list[str]:
    """Return one line for each broken link of the site. Paths in ``elsewhere`` are built separately."""
    site = site.resolve()
    pages = {path: _read(path) for path in sorted(site.rglob("*.html")) if not _is_below(path, site, elsewhere)}
    return [line for path, page in pages.items() for line in _broken(path, page, pages, site, elsewhere)]


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text())
    return page


def _broken(path: Path, page: _Page, pages: dict[Path, _Page], site: Path, elsewhere: tuple[str, ...]) -> Iterator[str]:
    here = path.relative_to(site)
    for target, loaded in page.references:
        parts = urlsplit(target)
        if parts.netloc:
            if loaded:
                yield f"{here}: loads {target} from another host"
            continue
        if parts.scheme:  # mailto:, data:
            continue
        found = _file(path, parts.path, site)
        if found is None or not found.is_relative_to(site):
            yield f"{here}: {target} leads out of the site"
        elif _is_below(found, site, elsewhere):
            continue
        elif not found.is_file():
            yield f"{here}: {target} does not exist"
        elif parts.fragment and found in pages and unquote(parts.fragment) not in pages[found].anchors:
            yield f"{here}: {target} has no such anchor"


def _file(page: Path, path: str, site: Path) -> Path | None:
    """Return the file that a path leads to, as a web server finds it."""
    if not path:
        return page
    if path.startswith("/"):
        # Only the page for addresses that do not exist has such links: it cannot know its own depth.
        found = site / unquote(path).lstrip("/")
        return None if page.name != "404.html" else found / "index.html" if found.is_dir() else found
    found = Path(page.parent, unquote(path)).resolve()
    return found / "index.html" if found.is_dir() else found


def _is_below(path: Path, site: Path, folders: tuple[str, ...]) -> bool:
    return path.is_relative_to(site) and str(path.relative_to(site)).startswith(folders) if folders else False
