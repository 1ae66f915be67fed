"""Reference of error messages, with cause and cure: `errors.toml`, compared with the texts in the sources."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.handbook.markdown import code

__all__ = ["missing_texts", "page"]

ROOT = Path(__file__).parents[2]
_SHORTEST = 5
"""Characters of a part that is worth a search: «: » is in every module."""


def page() -> str:
    """Return the text of the page."""
    texts = _texts()
    lines = [
        "# Error messages",
        "",
        "Messages with cause and cure. Parts in braces are values. Texts are Kubernetes' own where it has them.",
        "Rules of `lint` are [a page of their own](lint-rules.md).",
        "",
    ]
    for group in _groups():
        lines += [f"## {group['title']}", "", group["where"], ""]
        for error in group["error"]:
            lines += _entry(error, texts)
    return "\n".join(lines) + "\n"


def missing_texts() -> list[str]:
    """Return the messages that no module has any more."""
    texts = _texts()
    return [error["text"] for group in _groups() for error in group["error"] if not _homes(error["text"], texts)]


def _entry(error: dict[str, str], texts: dict[str, str]) -> Iterator[str]:
    yield from (f"### {code(error['text'])}", "")
    yield from (f"**Cause.** {error['cause']}", "", f"**Cure.** {error['cure']}", "")
    homes = _homes(error["text"], texts)
    yield from (f"<small>Source: {', '.join(code(home) for home in homes[:2])}</small>", "")


def _groups() -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = tomllib.loads((Path(__file__).parent / "errors.toml").read_text())["group"]
    return groups


def _homes(text: str, texts: dict[str, str]) -> list[str]:
    """Return the modules that have all parts of a message."""
    parts = [part for part in re.split(r"\{\w+\}", text) if len(part.strip()) >= _SHORTEST]
    return [home for home, found in texts.items() if all(part.strip() in found for part in parts)]


def _texts() -> dict[str, str]:
    """Return all strings of each module: by its path below ``src``."""
    sources = ROOT / "src"
    return {str(path.relative_to(sources)): _strings(path) for path in sorted(sources.rglob("*.py"))}


def _strings(path: Path) -> str:
    # Adjacent literals are one string for the reader of a message. A parser would take seconds for all modules.
    return re.sub(r'"\s*\n\s*f?"', "", path.read_text()).replace('\\"', '"')
