"""List the public Python API, so that a test finds each change of it: ``docs/public-api.txt``.

A line is a module with a name and its signature, or a class with one of its members. Only modules that the documents
import are public; everything else may change in any release.

    python tools/surface.py          # print the difference from the list
    python tools/surface.py --write  # write the list
"""

from __future__ import annotations

import argparse
import difflib
import enum
import importlib
import inspect
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

LIST: Final = Path(__file__).parents[1] / "docs" / "public-api.txt"
COMMAND: Final = "python tools/surface.py --write"
MODULES: Final = (
    "cathedra",
    "cathedra.allocation",
    "cathedra.api.quantity",
    "cathedra.cel",
    "cathedra.cel.admission",
    "cathedra.claims",
    "cathedra.classic.controller",
    "cathedra.classic.nodes.plugin",
    "cathedra.client.client",
    "cathedra.client.http",
    "cathedra.client.informer",
    "cathedra.client.kubeconfig",
    "cathedra.client.transport",
    "cathedra.clock",
    "cathedra.devicemetadata",
    "cathedra.driver",
    "cathedra.driver.kit",
    "cathedra.drivercheck",
    "cathedra.insight",
    "cathedra.profiles",
    "cathedra.testing",
)


def surface() -> list[str]:
    """Return the public API, one line for each name and each member of a class."""
    return [line for module in MODULES for line in _of_module(importlib.import_module(module))]


def main() -> int:
    """Write the list, or print how the API differs from it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the list")
    found = surface()
    if parser.parse_args().write:
        LIST.write_text("\n".join(found) + "\n")
        return 0
    changes = list(difflib.unified_diff(LIST.read_text().splitlines(), found, "listed", "found", lineterm="", n=0))
    print("\n".join(changes))
    return 1 if changes else 0


def _of_module(module: Any) -> Iterator[str]:
    for name in sorted(getattr(module, "__all__", ())):
        value = getattr(module, name)
        yield f"{module.__name__}: {name}{signature(value)}"
        if inspect.isclass(value):
            yield from (f"{module.__name__}: {name}.{member}" for member in members(value))


def members(kind: type) -> Iterator[str]:
    """Fields, methods and properties that a class of ours declares; the values of an enumeration."""
    if issubclass(kind, enum.Enum):
        yield from (f"{member.name} = {member.value!r}" for member in kind)
        return
    hints = _hints(kind)
    if issubclass(kind, msgspec.Struct):
        optional = len(kind.__struct_fields__) - len(kind.__struct_defaults__)
        for position, name in enumerate(kind.__struct_fields__):
            yield f"{name}: {hints[name]}{' = ...' if position >= optional else ''}"
    names = {name for base in kind.__mro__ if base.__module__.startswith("cathedra") for name in vars(base)}
    fields = set(getattr(kind, "__struct_fields__", ()))
    for name in sorted(names - fields):
        if not name.startswith("_"):
            value = inspect.getattr_static(kind, name)
            is_field = name in hints and not callable(value)
            yield f"{name}: {hints[name]}" if is_field else f"{name}{signature(value)}"


def _hints(kind: type) -> dict[str, str]:
    hints: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("cathedra"):
            hints |= inspect.get_annotations(base)
    return {
        name: str(getattr(hint, "__forward_arg__", hint)) for name, hint in hints.items() if not name.startswith("_")
    }


def signature(value: Any) -> str:
    if isinstance(value, (staticmethod, classmethod)):
        return f"{signature(value.__func__)} ({type(value).__name__})"
    if isinstance(value, property):
        returned = inspect.signature(value.fget).return_annotation if value.fget is not None else Any
        return f": {returned} (property)"
    if inspect.isclass(value) and issubclass(value, msgspec.Struct):
        return " (struct)"  # msgspec would import the types of all fields to compute its signature
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        return " (enum)"  # its signature is the standard library's, and differs between Pythons
    if inspect.isbuiltin(value):
        return "(...)"  # as with enumerations: later Pythons give signatures to more functions
    if isinstance(value, types.UnionType) or typing.get_origin(value) is typing.Union:
        return ": union"  # since Python 3.14, both spellings of a union make the same object
    if inspect.isclass(value) or callable(value):
        try:
            return _shown(inspect.signature(value))
        except (TypeError, ValueError):
            return " (class)" if inspect.isclass(value) else "(...)"
    return ": (attribute)" if inspect.ismemberdescriptor(value) else f": {type(value).__name__}"


class _Annotation:
    """A text that a signature shows without quotes."""

    def __init__(self, text: object) -> None:
        self._text = text

    def __repr__(self) -> str:
        return str(self._text)


def _shown(signature: inspect.Signature) -> str:
    parameters = [
        one.replace(annotation=_as_written(one.annotation), default=_constant(one.default))
        for one in signature.parameters.values()
    ]
    return str(signature.replace(parameters=parameters, return_annotation=_as_written(signature.return_annotation)))


def _as_written(annotation: Any) -> Any:
    return annotation if annotation is inspect.Signature.empty else _Annotation(annotation)


def _constant(default: Any) -> Any:
    # Other defaults show addresses, or the environment of the machine on which the list is written.
    is_shown = default is inspect.Parameter.empty or isinstance(default, (str, bytes, int, float, type(None)))
    return default if is_shown and not isinstance(default, enum.Enum) else _Annotation("...")


if __name__ == "__main__":
    sys.exit(main())
