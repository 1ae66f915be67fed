"""Fields that a patch says twice: the last one counts, and field validation speaks of it (spec: apimachinery.md,
section 13)."""

from __future__ import annotations

import json
from typing import Any

from cathedra.api.decoding import written_keys

__all__ = ["repeated_fields", "repeated_yaml_keys"]


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with a repeated field, in order."""


def repeated_fields(raw: bytes, parsed: Any = None) -> tuple[str, ...]:
    """The problems of a JSON patch body: ``duplicate field "metadata.labels.a"``, in order of appearance.

    Whoever has parsed the body already saves time by saying so.
    """
    if parsed is not None and _fields(parsed) == written_keys(raw):
        return ()
    found = False

    def paired(pairs: list[tuple[str, Any]]) -> Any:
        nonlocal found
        values = dict(pairs)
        if len(values) == len(pairs):
            return values
        found = True
        return _Pairs(pairs)

    try:
        value = json.loads(raw, object_pairs_hook=paired)
    except (ValueError, RecursionError):
        return ()  # whoever decodes the body says what is wrong with it
    if not found:
        return ()
    problems: list[str] = []
    _walk(value, "", problems)
    return tuple(dict.fromkeys(problems))


def _fields(value: Any) -> int:
    """How many fields there are in all."""
    if isinstance(value, dict):
        return len(value) + sum(_fields(item) for item in value.values() if isinstance(item, (dict, list)))
    if isinstance(value, list):
        return sum(_fields(item) for item in value if isinstance(item, (dict, list)))
    return 0


def _walk(value: Any, path: str, problems: list[str]) -> None:
    if isinstance(value, dict):
        value = list(value.items())
    elif not isinstance(value, _Pairs):
        if isinstance(value, list):
            for position, item in enumerate(value):
                _walk(item, f"{path}[{position}]", problems)
        return
    seen: set[str] = set()
    for name, item in value:
        where = f"{path}.{name}" if path else name
        if name in seen:
            problems.append(f'duplicate field "{where}"')
        seen.add(name)
        _walk(item, where, problems)


def repeated_yaml_keys(raw: bytes) -> str:
    """What is said about repeated keys of an applied body, or "" if there are none."""
    import yaml

    try:
        root = yaml.compose(raw, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, RecursionError):
        return ""  # whoever decodes the body says what is wrong with it
    problems: list[str] = []
    _walk_node(root, problems)
    if not problems:
        return ""
    return "error converting YAML to JSON: yaml: unmarshal errors:\n" + "\n".join(f"  {text}" for text in problems)


def _walk_node(node: Any, problems: list[str]) -> None:
    if node is None or isinstance(node.value, str):
        return
    seen: set[str] = set()
    for item in node.value:
        if not isinstance(item, tuple):
            _walk_node(item, problems)
            continue
        key, value = item
        if isinstance(key.value, str):
            if key.value in seen:
                problems.append(f'line {key.start_mark.line + 1}: key "{key.value}" already set in map')
            seen.add(key.value)
        _walk_node(value, problems)
