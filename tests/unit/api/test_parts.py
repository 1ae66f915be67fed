"""Reading objects part by part equals reading them whole, and equal bytes give the same part."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core.apiextensions_v1 import CustomResourceDefinition
from cathedra.api.core.core_v1 import ConfigMap, Event, Pod, PodSpec
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.nesting import MAX_DEPTH, NestingError
from cathedra.api.parts import FEW, LARGEST, LIMIT, SharedParts, parts_decoder, with_parts_of
from cathedra.api.resource import ResourceClaim, ResourceSlice
from cathedra.api.struct import EMPTY_LIST, decode, encode, replace
from cathedra.remembering import forget_objects
from tests.requirements import with_memos
from tests.unit.api.protobuf.objects import objects

KINDS = (Pod, ResourceClaim, ConfigMap, Event)
STORED = (*KINDS, ResourceSlice, CustomResourceDefinition)


@st.composite
def states(draw: st.DrawFn) -> tuple[Any, Any]:
    """An object, and what another write has made of it: some of its fields, and of those of its metadata, are another
    object's."""
    kind = draw(st.sampled_from(KINDS))
    old, other = draw(objects(kind)), draw(objects(kind))
    taken = draw(st.sets(st.sampled_from(kind.__struct_fields__)))
    named = draw(st.sets(st.sampled_from(ObjectMeta.__struct_fields__)))
    metadata = replace(old.metadata, **{name: getattr(other.metadata, name) for name in named})
    changed = {name: getattr(other, name) for name in taken}
    return decode(kind, encode(old)), replace(old, **{**changed, "metadata": metadata})


@settings(max_examples=40)
@given(states())
def test_a_later_state_reads_as_it_does_whole(drawn: tuple[Any, Any]) -> None:
    old, new = drawn
    body = encode(new)
    read = parts_decoder(type(new)).later(body, old, encode(old))
    whole = decode(type(new), body)
    assert read == whole
    assert encode(read) == body
    assert encode(with_parts_of(whole, body, old, encode(old))) == body


@settings(max_examples=40)
@given(st.lists(st.sampled_from(KINDS).flatmap(objects), min_size=2, max_size=4))
def test_new_objects_read_as_they_do_whole(drawn: list[Any]) -> None:
    for obj in [*drawn, *drawn]:
        body = encode(obj)
        assert parts_decoder(type(obj)).new(body) == decode(type(obj), body)


def test_what_a_later_state_leaves_alone_is_the_very_same() -> None:
    old = decode(
        Pod,
        b'{"metadata":{"name":"a","resourceVersion":"1","labels":{"a":"b"},"ownerReferences":[{"name":"o"}]},'
        b'"spec":{"containers":[{"name":"c"}]},"status":{"phase":"Pending","hostIP":"1.2.3.4"}}',
    )
    written = replace(old, metadata=replace(old.metadata, resource_version="2"), status=replace(old.status, phase="a"))
    new = parts_decoder(Pod).later(encode(written), old, encode(old))
    assert new == written
    assert new.spec is old.spec
    assert new.metadata.labels is old.metadata.labels
    assert new.metadata.owner_references is old.metadata.owner_references
    assert parts_decoder(Pod).later(encode(old), old, encode(old)).metadata is old.metadata


def test_an_object_that_was_read_whole_takes_parts_over_but_not_what_an_empty_list_may_tell_apart() -> None:
    body = b'{"kind":"Pod","metadata":{"name":"a","labels":{"a":"b"},"finalizers":[]},"spec":{"nodeName":"n"}}'
    old, new = decode(Pod, body), replace(decode(Pod, body), spec=PodSpec(node_name="n", containers=EMPTY_LIST))
    assert with_parts_of(new, body, old, body).spec is old.spec
    assert with_parts_of(new, body, old, body).metadata.labels is not old.metadata.labels
    spelled = b'{"metadata":{"name":"b","labels":{"a":"b"}},"spec":{"nodeName":"n","containers":[]}}'
    taken = with_parts_of(new, spelled, old, spelled.replace(b'"b",', b'"a",'))
    assert taken.spec is new.spec
    assert taken.metadata.labels is old.metadata.labels
    assert with_parts_of(new, b'{"spec":null}', old, body) is new
    assert with_parts_of(new, b"[", old, body) is new


@with_memos
def test_new_objects_with_the_same_spec_share_it_while_it_is_among_the_last() -> None:
    decoder = parts_decoder(Pod)
    body = b'{"metadata":{"name":"%d"},"spec":{"nodeName":"%d"}}'
    first = decoder.new(body % (1, 0))
    assert decoder.new(body % (2, 0)).spec is first.spec
    for number in range(LIMIT):
        decoder.new(body % (3, number + 1))
    again = decoder.new(body % (4, 0))
    assert again.spec is not first.spec
    assert again.spec == first.spec


def test_specs_are_dropped_with_the_memos_that_hold_objects() -> None:
    body = encode(Pod(spec=PodSpec(node_name="n")))
    first = parts_decoder(Pod).new(body)
    forget_objects()
    assert parts_decoder(Pod).new(body).spec is not first.spec


def test_a_large_spec_is_not_kept() -> None:
    body = encode(Pod(spec=PodSpec(node_name="x" * LARGEST)))
    decoder = parts_decoder(Pod)
    assert decoder.new(body).spec is not decoder.new(body).spec


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"{",
        b"null",
        b'{"metadata":{"name":1},"spec":{}}',
        b'{"metadata":{"labels":[]}}',
        b'{"spec":{},"status":{"phase":2}}',
    ],
)
def test_what_makes_no_sense_is_refused_as_it_is_whole(body: bytes) -> None:
    old = Pod(metadata=ObjectMeta(labels={"a": "b"}), spec=PodSpec(node_name="a"))
    decoder = parts_decoder(Pod)
    decoder.new(b'{"spec":{}}')
    with pytest.raises(msgspec.DecodeError) as whole:
        decode(Pod, body)
    for read in (lambda: decoder.new(body), lambda: decoder.later(body, old, encode(old))):
        with pytest.raises(type(whole.value)) as refused:
            read()
        assert str(refused.value) == str(whole.value)


@pytest.mark.parametrize(
    "body", [b'{"metadata":{"name":"b"},"spec":null}', b'{"spec":{"containers":null},"status":{"phase":"P"}}']
)
def test_null_is_nothing_in_each_part(body: bytes) -> None:
    old = Pod(metadata=ObjectMeta(labels={"a": "b"}), spec=PodSpec(node_name="a"))
    decoder = parts_decoder(Pod)
    decoder.new(b'{"spec":{}}')
    assert decoder.new(body) == decoder.later(body, old, encode(old)) == decode(Pod, body)


def test_fields_that_are_not_known_are_dropped() -> None:
    old = Pod(metadata=ObjectMeta(name="a"))
    body = b'{"extra":1,"metadata":{"name":"b","extra":{}},"spec":{}}'
    assert parts_decoder(Pod).later(body, old, encode(old)) == decode(Pod, body)
    parts_decoder(Pod).new(b'{"spec":{}}')
    assert parts_decoder(Pod).new(body) == decode(Pod, body)


def reading(*kinds: type[Any]) -> SharedParts:
    """Return a decoder that has read enough objects of these kinds for the next ones to share their parts."""
    shared = SharedParts()
    for kind in kinds:
        for _ in range(FEW):
            assert shared.read(kind, b"{}") == kind()
    return shared


@settings(max_examples=40)
@given(st.lists(st.sampled_from(STORED).flatmap(objects), min_size=2, max_size=4))
def test_objects_of_a_store_read_as_they_do_whole(drawn: list[Any]) -> None:
    shared = reading(*STORED)
    for obj in [*drawn, *drawn]:
        body = encode(obj)
        read = shared.read(type(obj), body)
        assert read == decode(type(obj), body)
        assert encode(read) == body


def test_pods_of_a_store_share_what_is_the_same_in_both() -> None:
    form = (
        b'{"metadata":{"name":"%b","labels":{"app":"a"}},"spec":{"nodeName":"%b","containers":[{"name":"c",'
        b'"volumeMounts":[{"name":"%b","mountPath":"/x"}],"resources":{"requests":{"cpu":"100m"}}}]},'
        b'"status":{"conditions":[{"type":"Ready","status":"True","lastProbeTime":null}]}}'
    )
    shared = reading(Pod)
    one, other = (shared.read(Pod, form % (name, b"node-1", name)) for name in (b"pod-one", b"pod-two"))
    assert one.metadata.labels is other.metadata.labels
    assert one.spec.containers[0].resources is other.spec.containers[0].resources
    assert one.spec.containers[0].volume_mounts != other.spec.containers[0].volume_mounts
    assert one.status == other.status


def test_equal_quantities_with_different_texts_are_decoded_apart() -> None:
    shared = reading(Pod)
    for text in (b"100m", b"0.1", b"1024Ki", b"1Mi", b"1048576"):
        body = b'{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"%b"}}}]}}' % text
        assert encode(shared.read(Pod, body)) == encode(decode(Pod, body))


@pytest.mark.parametrize(
    "body", [b'{"spec":{"containers":[{"name":7}]}}', b'{"spec":', b'{"spec":{"hostname":"\xff"}}']
)
def test_an_error_in_an_object_of_a_store_is_that_of_the_whole_object(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError) as whole:
        decode(Pod, body)
    with pytest.raises(msgspec.DecodeError) as found:
        reading(Pod).read(Pod, body)
    assert str(found.value) == str(whole.value)


def test_nulls_in_an_object_of_a_store_mean_nothing() -> None:
    body = b'{"metadata":{"name":"p","labels":null},"spec":{"containers":null,"nodeName":null,"securityContext":null}}'
    assert reading(Pod).read(Pod, body) == decode(Pod, body)


def test_objects_of_a_store_share_texts_and_empty_mappings_where_they_share_no_parts() -> None:
    claim = (
        b'{"metadata":{"name":"%b","finalizers":["f"],"managedFields":[{"manager":"kube-scheduler","time":'
        b'"2025-06-17T17:03:%bZ"}],"ownerReferences":[{"kind":"Pod","name":"%b","uid":"%b"}]},'
        b'"status":{"allocation":{"devices":{"results":[{"request":"gpu","driver":"gpu.example.com","device":"%b"}]}}}}'
    )
    shared = reading(ResourceClaim)
    one, other = (shared.read(ResourceClaim, claim % ((digits,) * 5)) for digits in (b"10", b"20"))
    results = [each.status.allocation.devices.results[0] for each in (one, other) if each.status.allocation]
    assert results[0].driver is results[1].driver
    assert one.metadata.managed_fields[0].manager is other.metadata.managed_fields[0].manager
    assert one.metadata.owner_references[0].kind is other.metadata.owner_references[0].kind
    assert one.metadata.labels is other.metadata.labels
    assert [each.metadata.owner_references[0].uid for each in (one, other)] == ["10", "20"]
    assert [result.device for result in results] == ["10", "20"]


def test_conditions_of_a_store_share_their_types_and_states() -> None:
    form = b'{"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2025-06-17T17:03:%bZ"}]}}'
    shared = reading(Pod)
    one, other = (shared.read(Pod, form % digits).status.conditions[0] for digits in (b"10", b"20"))
    assert one != other
    assert one.type is other.type
    assert one.status is other.status


def test_objects_of_a_store_are_of_their_own_types() -> None:
    body = (
        b'{"metadata":{"name":"p","managedFields":[{"manager":"m","time":"2025-06-17T17:03:10Z","fieldsV1":{}}]},'
        b'"spec":{"containers":[{"name":"c","resources":{}}],"volumes":[{"name":"v","emptyDir":{}}]},'
        b'"status":{"conditions":[{"type":"Ready"}],"containerStatuses":[{"name":"c","state":{"running":{}}}]}}'
    )
    one, other = decode(Pod, body), reading(Pod).read(Pod, body)
    for path in ("", ".metadata", ".metadata.managed_fields[0]", ".spec", ".spec.containers[0]", ".spec.volumes[0]"):
        assert eval(f"type(one{path}) is type(other{path})")
    statuses = (one.status, other.status)
    assert len({type(each) for each in statuses}) == 1
    assert len({type(each.conditions[0]) for each in statuses}) == 1
    assert len({type(each.container_statuses[0].state.running) for each in statuses}) == 1


def test_parts_that_differ_from_object_to_object_read_as_they_do_whole() -> None:
    """Looking for them is suspended meanwhile, and then begins again."""
    form = b'{"metadata":{"name":"c","ownerReferences":[{"kind":"Pod","name":"%b","uid":"%b"}],"finalizers":["f"]}}'
    shared = reading(ResourceClaim)
    for number in range(2400):
        body = form % ((b"%d" % number,) * 2)
        assert shared.read(ResourceClaim, body) == decode(ResourceClaim, body)
    one, other = (shared.read(ResourceClaim, form % (b"p", b"u")) for _ in range(2))
    assert one.metadata.owner_references is other.metadata.owner_references
    assert one.metadata.finalizers is other.metadata.finalizers


@pytest.mark.parametrize(
    "form",
    [
        b'{"metadata":{"managedFields":[{"manager":"m","fieldsV1":{"f:a":%b}}]}}',
        b'{"spec":{"versions":[{"name":"v1","schema":{"openAPIV3Schema":{"default":%b}}}]}}',
    ],
)
def test_opaque_parts_of_objects_of_a_store_are_not_nested_too_deeply(form: bytes) -> None:
    def nested(levels: int) -> bytes:
        return form % (b"[" * levels + b"]" * levels)

    body = nested(MAX_DEPTH - 20)
    assert reading(CustomResourceDefinition).read(CustomResourceDefinition, body) == decode(
        CustomResourceDefinition, body
    )
    with pytest.raises(NestingError):
        reading(CustomResourceDefinition).read(CustomResourceDefinition, nested(2 * MAX_DEPTH))


def test_few_objects_of_a_kind_are_decoded_as_they_are() -> None:
    body = b'{"metadata":{"name":"p","labels":{"app":"a"}}}'
    shared = SharedParts()
    read = [shared.read(Pod, body) for _ in range(FEW + 2)]
    assert read == [decode(Pod, body)] * len(read)
    assert read[0].metadata.labels is not read[1].metadata.labels
    assert read[-1].metadata.labels is read[-2].metadata.labels
