"""JSON merge patch (RFC 7386): null deletes, objects merge, everything else replaces.

Kubernetes' library goes further than the standard in one thing: where the patch brings something new, fields that are
null vanish at every depth, also in objects within lists.
"""

from __future__ import annotations

from typing import Any

from cathedra.api.jsonvalue import JSONValue


def merge_patch(target: JSONValue, patch: JSONValue) -> Any:
    """Return ``target`` with ``patch`` merged in; neither is changed."""
    if not isinstance(target, dict):
        return _without_nulls(patch)
    if not isinstance(patch, dict):
        return patch
    merged = dict(target)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, (dict, list)):
            merged[key] = merge_patch(merged.get(key), value)
        else:
            merged[key] = value
    return merged


def _without_nulls(value: JSONValue) -> Any:
    """Return a value without null fields; null items of lists stay."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
