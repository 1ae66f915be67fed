"""Applied configurations: merged by their pattern as by documents, with a manager and without."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.decoding import KINDS_WITH_SCHEMAS
from cathedra.api.field import go_values
from cathedra.api.status import StatusError
from cathedra.api.struct import encode, from_dict, replace, to_dict
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.ownership.applying import NotApplicable, Patterns, applied, apply_configuration
from cathedra.apiserver.ownership.documents import changes, doubtful_fields
from cathedra.apiserver.ownership.fieldset import FieldSet, FieldSets, fields_at, tracked_part
from cathedra.apiserver.ownership.tracking import tracked
from cathedra.apiserver.ownership.typed import check, field_set, field_shape, is_leaf, merge
from cathedra.apiserver.patches.schema import Leaf, ListShape, Shape, StructShape, struct_shape, without_nulls
from cathedra.apiserver.request import Call
from cathedra.kinds.definition import AnyDefinition
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates
from tests.requirements import with_memos
from tests.unit.apiserver.asgi import open_asgi
from tests.unit.apiserver.ownership.objects import random_object

PODS_URL = "/api/v1/namespaces/default/pods"


@pytest.mark.parametrize("cpu", ["abc", True])
async def test_a_value_that_cannot_be_decoded_is_a_failed_conversion(cpu: Any) -> None:
    container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": cpu}}}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [container]}}
    async with open_asgi() as asgi:
        refused = await asgi("PATCH", f"{PODS_URL}/x?fieldManager=m", body, content_type="application/apply-patch+yaml")
        assert (refused.status, refused.json["message"]) == (
            500,
            "failed to convert new object (/x; /v1, Kind=Pod) to proper version: unable to convert unstructured object"
            " to /v1, Kind=Pod: quantities must match the regular expression"
            " '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        )
        assert (await asgi("GET", f"{PODS_URL}/x")).status == 404


@pytest.mark.parametrize("spec", [{}, {"spec": {}}, {"spec": {"devices": {}}}])
async def test_an_apply_that_creates_an_object_leaves_the_other_fields_empty(spec: dict[str, Any]) -> None:
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "x"}, **spec}
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/x?fieldManager=m"
    async with open_asgi() as asgi:
        made = await asgi("PATCH", path, body, content_type="application/apply-patch+yaml")
        assert (made.status, made.json["spec"]["devices"]) == (201, {"requests": None})
        again = await asgi("PATCH", path, body, content_type="application/apply-patch+yaml")
        assert (again.status, again.json) == (200, made.json)


PODS_DEFINITION = next(one for one in all_definitions(FeatureGates.for_release()) if one.plural == "pods")
CALL = Call.on(
    PODS_DEFINITION,
    PODS_DEFINITION.versions[0],
    user=UserInfo("ann"),
    verb="patch",
    namespace="ns",
    name="p",
    subresource="status",
    field_manager="controller",
)
CLAIM = st.fixed_dictionaries({"name": st.sampled_from("ab")}, optional={"resourceClaimName": st.sampled_from("xy")})
STATUS = st.fixed_dictionaries(
    {},
    optional={
        "phase": st.sampled_from(["Pending", "Running"]),
        "resourceClaimStatuses": st.lists(CLAIM, max_size=2, unique_by=lambda one: one["name"]),
    },
)
METADATA = st.fixed_dictionaries(
    {"name": st.just("p")}, optional={"labels": st.sampled_from([{"a": ""}, {"b": "", "a": ""}]), "uid": st.just("u")}
)
SPEC = st.sampled_from([{}, {"nodeName": "n"}, {"nodeSelector": {"b": "", "a": ""}}])
LIVE = st.fixed_dictionaries({"metadata": METADATA, "spec": SPEC, "status": STATUS})
CONFIGURATIONS = st.fixed_dictionaries(
    {"metadata": METADATA}, optional={"status": STATUS, "spec": st.just({"nodeName": "m"})}
)


def _outcome(call: Call, live: Any, configuration: dict[str, Any], *, live_body: bytes) -> Any:
    try:
        return applied(call, live, configuration, 9.0, live_body)
    except StatusError as error:
        return error.status


@settings(max_examples=150)
@given(LIVE, st.lists(CONFIGURATIONS, min_size=1, max_size=3), st.booleans(), st.sampled_from(["status", ""]))
def test_an_apply_by_pattern_ends_as_one_by_documents(
    values: dict[str, Any], configurations: list[dict[str, Any]], force: bool, subresource: str
) -> None:
    call = CALL.but(force=force, subresource=subresource)
    live = tracked(call.but(field_manager="maker", subresource=""), None, from_dict(Pod, values), 5.0)
    for number, configuration in enumerate(configurations):
        mine = call.but(field_manager=f"controller {number}")
        by_documents = _outcome(mine, live, configuration, live_body=b"")
        for _ in range(2):
            outcome = _outcome(mine, live, configuration, live_body=encode(live))
            assert _without_reset(outcome, subresource) == _without_reset(by_documents, subresource)
        live = by_documents if isinstance(by_documents, Pod) else live


def _without_reset(outcome: Any, subresource: str) -> bytes:
    """Return the JSON without the part that the strategy resets to the stored one."""
    if isinstance(outcome, Pod):
        outcome = msgspec.structs.replace(outcome, **{"spec" if subresource else "status": None})
    return encode(outcome)


# --- patterns

DEFINITIONS = [
    one
    for one in all_definitions(FeatureGates.for_release())
    if one.kind not in KINDS_WITH_SCHEMAS and "create" in one.verbs and hasattr(one.versions[0].type(), "metadata")
]


def texts_of(value: Any, shape: Shape) -> Any:
    """Return the part of a value that has a pattern: structs, keyed lists and texts; None if nothing is left."""
    if isinstance(shape, Leaf):
        return value if type(value) is str else None
    if is_leaf(shape):
        return None
    if isinstance(shape, ListShape):
        if shape.list_type != "map" or not isinstance(value, list):
            return None
        items = [texts_of(item, shape.element) for item in value]
        unique = {str([item.get(key) for key in shape.keys]): item for item in items if item}
        return [item for item in unique.values() if item.keys() >= set(shape.keys)] or None
    if not isinstance(shape, StructShape) or not isinstance(value, dict):
        return None
    parts = {key: texts_of(item, shape.fields[key]) for key, item in value.items() if key in shape.fields}
    return {key: part for key, part in parts.items() if part is not None} or None


def valid(value: Any, shape: Shape) -> Any:
    """Return a value as it may be stored: keys of lists are unique, and templates have no managed fields."""
    if isinstance(value, list) and isinstance(shape, ListShape):
        items = [valid(item, shape.element) for item in value]
        if shape.list_type == "atomic":
            return items
        keys = [str([item.get(key) for key in shape.keys]) if shape.keys else str(item) for item in items]
        return list(dict(zip(keys, items, strict=True)).values())
    if not isinstance(value, dict) or isinstance(shape, Leaf):
        return value
    return {key: valid(item, field_shape(shape, key)) for key, item in value.items() if key != "managedFields"}


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda one: f"{one.group}/{one.plural}")
def test_an_apply_by_pattern_ends_as_one_by_documents_for_every_kind(definition: AnyDefinition) -> None:
    """Objects and configurations are drawn from the types of the kind's own structs."""
    random, version = Random(definition.plural), definition.versions[0]
    kind: Any = version.type
    call = CALL.but(definition=definition, version=version, subresource="", force=True)
    for number in range(12):
        made = from_dict(kind, valid(to_dict(random_object(kind, random)), struct_shape(kind)))
        made = replace(made, metadata=ObjectMeta(name="a", uid="u"))
        try:
            live = tracked(call.but(field_manager="maker"), None, version.to_hub(made), 5.0)
        except (TypeError, ValueError):
            continue  # an object that validation refuses cannot always be converted
        if not live.metadata.managed_fields:
            continue  # elements without keys, which validation refuses
        configuration = texts_of(to_dict(random_object(kind, random)), struct_shape(kind)) or {}
        configuration |= {"metadata": {"name": "a"}}
        mine = call.but(field_manager=f"controller {number}")
        body = encode(version.from_hub(live) if type(live) is not kind else live)
        by_documents = _outcome(mine, live, configuration, live_body=b"")
        for _ in range(2):
            outcome = _outcome(mine, live, configuration, live_body=body)
            if isinstance(outcome, type(live)) and hasattr(outcome, "status"):
                outcome = replace(outcome, status=by_documents.status)  # the strategy resets it
            assert encode(outcome) == encode(by_documents)


SHAPE = struct_shape(Pod)
IGNORED = fields_at(("spec.nodeName", "metadata.labels"))
TEXT = st.sampled_from(["", "x", "y"])
NAMES = st.sampled_from(["a", "b"])
CONDITION = st.fixed_dictionaries({"type": NAMES}, optional={"status": TEXT, "reason": TEXT})
NAMED_CLAIM = st.fixed_dictionaries({"name": NAMES}, optional={"resourceClaimName": TEXT})
LABELS = st.sampled_from([{"a": "b"}, {"b": "", "a": ""}])
STATUS_CONFIGURATIONS = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"name": TEXT}, optional={"uid": TEXT, "labels": LABELS})},
    optional={
        "spec": st.fixed_dictionaries({}, optional={"nodeName": TEXT, "overhead": st.just({}), "wrong": TEXT}),
        "status": st.fixed_dictionaries(
            {},
            optional={
                "phase": st.one_of(TEXT, st.none(), st.just(3)),
                "conditions": st.lists(CONDITION, max_size=2),
                "resourceClaimStatuses": st.lists(NAMED_CLAIM, max_size=2),
            },
        ),
    },
)


@settings(max_examples=200)
@given(st.lists(STATUS_CONFIGURATIONS, min_size=1, max_size=6), STATUS_CONFIGURATIONS)
def test_a_pattern_holds_for_every_configuration_that_has_it(
    configurations: list[dict[str, Any]], live: dict[str, Any]
) -> None:
    patterns = Patterns()
    for configuration in configurations:
        found = patterns.find("ann", configuration, SHAPE, IGNORED)
        if found is None:
            continue
        pattern, fields, doubtful = found
        assert not check(configuration, SHAPE)
        assert fields == tracked_part(field_set(configuration, SHAPE).without_subtrees(IGNORED))
        reset = {key[2:] for key, inner in IGNORED.children.items() if inner.member}
        assert set(doubtful) == doubtful_fields(SHAPE).keys() - configuration.keys() - reset
        if check(live, SHAPE):
            continue  # nothing like it is ever stored
        pod = from_dict(Pod, go_values(without_nulls(live, SHAPE)))
        before = to_dict(pod)
        wanted = merge(before, configuration, SHAPE)
        touched: FieldSets = {}
        made = pattern.merged(pod, configuration, (), touched)
        read = from_dict(Pod, go_values(without_nulls(wanted, SHAPE)))
        if made is None:
            assert list(live["metadata"]["labels"]) == ["b", "a"]
            continue
        assert encode(made) == encode(read)
        assert (FieldSet.at_paths(touched), fields_at(())) == changes(before, wanted, SHAPE)


@with_memos
def test_texts_are_no_part_of_a_pattern_and_keys_of_a_list_are() -> None:
    patterns = Patterns()

    def found(**claim: str) -> Any:
        return patterns.find("ann", {"status": {"resourceClaimStatuses": [claim]}}, SHAPE, IGNORED)

    first = found(name="gpu", resourceClaimName="p-gpu-1")
    assert found(name="gpu", resourceClaimName="p-gpu-2") is first
    other = found(name="net", resourceClaimName="p-net-1")
    assert other[1] != first[1]
    assert found(name="gpu", resourceClaimName="p-gpu-3") is first
    assert found(name="gpu")[1] != first[1]


def test_a_configuration_with_other_values_than_texts_has_no_pattern() -> None:
    patterns = Patterns()
    for status in ({"phase": None}, {"conditions": []}, {"phase": 1}, {"other": "x"}, {"conditions": [{"status": ""}]}):
        assert patterns.find("ann", {"status": status}, SHAPE, IGNORED) is None
    repeated = [{"type": "Ready"}, {"type": "Ready"}]
    assert patterns.find("ann", {"status": {"conditions": repeated}}, SHAPE, IGNORED) is None


# --- without a manager

LIVE_POD = {"metadata": {"name": "p", "labels": {"a": "1"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def merged(configuration: dict[str, Any]) -> dict[str, Any]:
    return apply_configuration(LIVE_POD, configuration, SHAPE)


def test_fields_of_the_configuration_are_merged_and_the_rest_stays() -> None:
    made = merged({"kind": "Pod", "apiVersion": "v1", "metadata": {"labels": {"b": "2"}}})
    assert made == {**LIVE_POD, "metadata": {"name": "p", "labels": {"a": "1", "b": "2"}}}


def test_list_elements_are_merged_by_their_keys() -> None:
    made = merged({"spec": {"containers": [{"name": "c", "tty": True}, {"name": "d", "image": "j"}]}})
    assert made["spec"]["containers"] == [
        {"name": "c", "image": "i", "tty": True},
        {"name": "d", "image": "j"},
    ]


@pytest.mark.parametrize(
    ("configuration", "paths"),
    [
        ({"spec": {"containers": [{"name": "c", "args": ["x"]}]}}, ".spec.containers[0].args"),
        ({"spec": {"nodeSelector": {"a": "b"}}}, ".spec.nodeSelector"),
        (
            {"spec": {"nodeSelector": {}, "containers": [{"name": "c"}, {"name": "d", "command": ["x"]}]}},
            ".spec.nodeSelector, .spec.containers[1].command",
        ),
    ],
)
def test_an_atomic_value_cannot_be_set_in_part(configuration: dict[str, Any], paths: str) -> None:
    with pytest.raises(NotApplicable) as raised:
        merged(configuration)
    assert str(raised.value).endswith(f"may not mutate atomic arrays, maps or structs: {paths}")


def test_a_configuration_that_does_not_fit_the_kind_is_refused() -> None:
    with pytest.raises(NotApplicable, match="failed to convert patch object to typed object: "):
        merged({"spec": {"nothing": 1}})
    with pytest.raises(NotApplicable, match="errors:\n  "):
        merged({"spec": {"nothing": 1, "hostNetwork": "yes"}})
