"""An object that stays where it is in an index has the values there that it had: `Store.add_index` with ``same``."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import cathedra
from cathedra.api.core.apps_v1 import ReplicaSet
from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import KubeStruct, from_dict, replace
from tests.unit.kinds.structs import values_of

SOURCES = Path(cathedra.__file__).parent
METADATA = {
    "name": "a",
    "namespace": "b",
    "uid": "u",
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u", "controller": True}],
    "annotations": {"resource.kubernetes.io/pod-claim-name": "a"},
}
ENTRIES = [{"name": "a", "resourceClaimName": "a"}, {"name": "b", "resourceClaimTemplateName": "b"}]
POD: dict[str, Any] = {
    "metadata": METADATA,
    "spec": {"resourceClaims": ENTRIES, "schedulingGroup": {"podGroupName": "g"}},
    "status": {
        "resourceClaimStatuses": [{"name": "b", "resourceClaimName": "made"}],
        "extendedResourceClaimStatus": {"resourceClaimName": "special"},
    },
}
RESULT = {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "d"}
CLAIM = {"metadata": METADATA, "status": {"allocation": {"devices": {"results": [RESULT]}}}}
OBJECTS: dict[type[Any], KubeStruct] = {
    Pod: from_dict(Pod, POD),
    KubeObject: from_dict(Pod, POD),
    ResourceClaim: from_dict(ResourceClaim, CLAIM),
    ReplicaSet: from_dict(ReplicaSet, {"metadata": METADATA}),
}
Indexer = Callable[[Any], Iterable[Any]]
Same = Callable[[Any, Any], bool]


def indexes() -> Iterator[tuple[str, Indexer, Same]]:
    """Every index of the sources that is added with a ``same``."""
    for path in sorted(SOURCES.rglob("*.py")):
        source = path.read_text()
        if ".add_index(" not in source:
            continue
        name = ".".join(("cathedra", *path.relative_to(SOURCES).with_suffix("").parts))
        for call in ast.walk(ast.parse(source)):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "add_index":
                given = [*call.args, *[keyword.value for keyword in call.keywords]]
                if len(given) == 3:
                    names = vars(importlib.import_module(name))
                    indexer, same = (eval(ast.unparse(one), names) for one in given[1:])
                    yield f"{name}:{ast.unparse(given[1])}", indexer, same


INDEXES = {name: (indexer, same) for name, indexer, same in indexes()}


def kind_of(indexer: Indexer) -> type[Any]:
    """The type of the objects that an indexer takes."""
    kind: type[Any] = get_type_hints(indexer)[next(iter(inspect.signature(indexer).parameters))]
    return kind


def changes(obj: KubeStruct) -> Iterator[tuple[str, st.SearchStrategy[Any]]]:
    """A strategy for objects with another value, for each field of an object's parts but those of its key."""
    for part in obj.__struct_fields__:
        below = getattr(obj, part)
        if not isinstance(below, KubeStruct):
            continue
        for field, hint in get_type_hints(type(below), include_extras=True).items():
            if field in below.__struct_fields__ and field not in ("name", "namespace", "managed_fields"):
                yield f"{part}.{field}", values_of(hint).map(_with(obj, part, field))


def _with(obj: KubeStruct, part: str, field: str) -> Callable[[Any], KubeStruct]:
    return lambda value: replace(obj, **{part: replace(getattr(obj, part), **{field: value})})


def test_indexes_of_known_kinds_are_found() -> None:
    assert len(INDEXES) > 10
    assert {kind_of(indexer) for indexer, _ in INDEXES.values()} == set(OBJECTS)


@pytest.mark.parametrize("kind", OBJECTS)
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(st.data())
def test_where_same_is_true_of_two_states_an_object_has_the_same_values(kind: type[Any], data: st.DataObject) -> None:
    old = OBJECTS[kind]
    filed = {name: one for name, one in INDEXES.items() if kind_of(one[0]) is kind}
    assert filed
    before = {name: list(indexer(old)) for name, (indexer, _) in filed.items()}
    for field, objects in changes(old):
        new = data.draw(objects, label=field)
        for name, (indexer, same) in filed.items():
            if same(old, new):
                assert list(indexer(new)) == before[name], f"{name} reads {field}, which is not compared"


def test_every_field_is_changed() -> None:
    assert {"spec.node_name", "status.phase", "metadata.labels"} <= dict(changes(OBJECTS[Pod])).keys()
