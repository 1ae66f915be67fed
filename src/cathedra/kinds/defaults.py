"""Defaults of single fields, for the functions that fill in a kind."""

from __future__ import annotations

from typing import Any

__all__ = ["absent"]


def absent(obj: Any, **defaults: object) -> dict[str, object]:
    return {name: value for name, value in defaults.items() if getattr(obj, name) in ("", None)}
