"""The scale of a custom resource: numbers at the places that its definition names
(docs/spec/apimachinery.md §17)."""

from __future__ import annotations

from cathedra.api.jsonvalue import JSONObject, JSONValue
from cathedra.apiserver.custom.columns import parse_path
from cathedra.apiserver.custom.objects import CustomObject, content, with_content

__all__ = ["custom_numbers", "with_replicas"]


def custom_numbers(obj: CustomObject) -> tuple[int, int, str]:
    """Replicas wanted, replicas present, and the selector of the pods."""
    paths = type(obj).scale
    if paths is None:
        return 0, 0, ""
    values = content(obj)
    wanted, present = (parse_path(path).one(values) for path in (paths.spec_replicas, paths.status_replicas))
    selector = parse_path(paths.selector).one(values) if paths.selector else ""
    return _number(wanted), _number(present), selector if isinstance(selector, str) else ""


def with_replicas(obj: CustomObject, replicas: int) -> CustomObject:
    """The object with another number of replicas wanted."""
    paths = type(obj).scale
    assert paths is not None, "a kind without a scale has no such sub-resource"
    steps = paths.spec_replicas.strip(".").split(".")
    return with_content(type(obj), obj.metadata, _set(content(obj), steps, replicas))


def _set(values: JSONObject, steps: list[str], replicas: int) -> JSONObject:
    first, *rest = steps
    inner = values.get(first)
    changed = _set(inner if isinstance(inner, dict) else {}, rest, replicas) if rest else replicas
    return {**values, first: changed}


def _number(value: JSONValue) -> int:
    return value if isinstance(value, int) else 0
