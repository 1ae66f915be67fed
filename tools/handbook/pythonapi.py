"""Reference of the public Python API: the names of ``docs/public-api.txt`` with their docstrings.

Signatures come from `tools.surface`, which a test compares with that list.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

from tools import surface
from tools.handbook.markdown import code

__all__ = ["index_page", "module_page", "module_pages"]

_ROLE = re.compile(r"``([^`\n]+)``")


def module_pages() -> dict[str, str]:
    """Return the text of each page, by its path below ``reference``."""
    pages = {f"python/{name}.md": module_page(name) for name in surface.MODULES if name != "cathedra"}
    return {"python/index.md": index_page(), **pages}


def index_page() -> str:
    """Return the list of public modules."""
    lines = [
        "# Python API",
        "",
        "Only the names of these modules are public; everything else may change in any release. A test compares them",
        "with [the list](../../public-api.txt), so each change of it is deliberate.",
        "",
        "| module | for |",
        "|---|---|",
    ]
    for name in surface.MODULES:
        if name != "cathedra":
            lines.append(f"| [`{name}`]({name}.md) | {_first_line(importlib.import_module(name))} |")
    return "\n".join(lines) + "\n"


def module_page(name: str) -> str:
    """Return the page of one module."""
    module = importlib.import_module(name)
    lines = [f"# {name}", "", *_docstring(module), ""]
    for public in sorted(getattr(module, "__all__", ()), key=str.lower):
        lines += _entry(module, public)
    return "\n".join(lines) + "\n"


def _entry(module: Any, name: str) -> Iterator[str]:
    value = getattr(module, name)
    yield from (f"## {name}", "", f'<p class="signature">{code(name + surface.signature(value))}</p>', "")
    yield from (*_docstring(value), "")
    if not inspect.isclass(value):
        return
    members = list(surface.members(value))
    for member in members:
        plain = re.match(r"\w+", member)
        described = _member_text(value, plain[0]) if plain is not None else ""
        yield f"- {code(member)}{f'<br>{described}' if described else ''}"
    if members:
        yield ""


def _member_text(kind: type, name: str) -> str:
    """Return the first paragraph about a member: its docstring, or the string below a field."""
    value = inspect.getattr_static(kind, name, None)
    documented = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
    if callable(documented) or isinstance(documented, property):
        return _paragraph(inspect.getdoc(documented) or "")
    return next((texts[name] for texts in map(_field_texts, kind.__mro__) if name in texts), "")


def _field_texts(kind: type) -> dict[str, str]:
    if not kind.__module__.startswith("cathedra"):
        return {}
    try:
        source = inspect.getsource(kind)
    except (OSError, TypeError):
        return {}
    found = re.findall(r'^    (\w+):[^\n]*\n    """(.*?)"""', source, re.MULTILINE | re.DOTALL)
    return {name: _paragraph(inspect.cleandoc(text)) for name, text in found}


def _docstring(value: Any) -> Iterator[str]:
    # The docstring of a plain value is that of its type, and does not describe it.
    if not (inspect.isclass(value) or inspect.ismodule(value) or callable(value)):
        return
    text = inspect.getdoc(value) or ""
    # Structs and exceptions without a docstring inherit one that is about their base.
    if inspect.isclass(value) and not value.__dict__.get("__doc__"):
        return
    yield from _as_markdown(text).splitlines()


def _as_markdown(text: str) -> str:
    """Return a docstring as Markdown: indented blocks become code, double quotes of code single ones."""
    lines: list[str] = []
    for block in re.split(r"\n\s*\n", text):
        if block.startswith("    "):
            lines += ["```python", inspect.cleandoc("\n" + block), "```", ""]
        else:
            lines += [_ROLE.sub(r"`\1`", block).replace("<", "&lt;"), ""]
    return "\n".join(lines).strip()


def _paragraph(text: str) -> str:
    return " ".join(_ROLE.sub(r"`\1`", text.partition("\n\n")[0]).replace("<", "&lt;").split())


def _first_line(module: Any) -> str:
    return _paragraph(module.__doc__ or "")
