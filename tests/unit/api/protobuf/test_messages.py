"""Objects survive the way to protobuf and back, and the bytes are those of Kubernetes' own encoders."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cathedra.api.core import apiextensions_v1, batch_v1, core_v1, meta_v1, rbac_v1
from cathedra.api.core.index import KINDS, MODULES
from cathedra.api.protobuf import ProtobufError, decode_message, encode_message, has_message
from cathedra.api.resource import Device, NodeAllocatableResource, ResourceClaim, ResourceSlice
from cathedra.api.scheme import GroupVersionKind, type_of
from cathedra.api.struct import Quantity, RawJSON, Time
from tests.unit.api.protobuf.objects import objects
from tests.unit.api.protobuf.recorded import RECORDED

ALL_KINDS = [type_of(GroupVersionKind.parse(version, kind)) for version in MODULES for kind in KINDS[version]]
OPTIONS = [meta_v1.DeleteOptions, meta_v1.CreateOptions, meta_v1.UpdateOptions, meta_v1.PatchOptions, meta_v1.Status]
EMPTY_METADATA = bytes.fromhex("0a10 0a00 1200 1a00 2200 2a00 3200 3800 4200")


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(ALL_KINDS + OPTIONS).flatmap(objects))
def test_every_object_comes_back_as_it_was(obj: core_v1.Pod) -> None:
    assert decode_message(type(obj), encode_message(obj)) == obj


def test_every_built_in_kind_has_a_message() -> None:
    assert all(has_message(kind) for kind in ALL_KINDS)
    for kind in ALL_KINDS:
        assert decode_message(kind, encode_message(kind())) == kind()


@pytest.mark.parametrize(("kind", "sent"), RECORDED.items())
def test_what_kubectl_sent_is_read_and_written_again_byte_for_byte(kind: tuple[str, str], sent: str) -> None:
    body = bytes.fromhex(sent)
    assert encode_message(decode_message(type_of(GroupVersionKind.parse(*kind)), body)) == body


def test_fields_that_are_no_pointers_are_written_even_when_empty() -> None:
    """As client-go sends them: empty texts, zero numbers, and a creation time of length nought."""
    spelled = core_v1.ConfigMap(metadata=meta_v1.ObjectMeta(name="a"))
    assert encode_message(spelled) == bytes.fromhex("0a11 0a0161 1200 1a00 2200 2a00 3200 3800 4200")


def test_maps_are_sorted_by_key() -> None:
    spelled = core_v1.ConfigMap(data={"b": "2", "a": "1"})
    assert encode_message(spelled) == EMPTY_METADATA + bytes.fromhex("1206 0a0161 120131 1206 0a0162 120132")


def test_pointers_are_written_only_when_they_are_there() -> None:
    assert encode_message(core_v1.ConfigMap(immutable=False)) == EMPTY_METADATA + bytes.fromhex("2000")
    assert encode_message(core_v1.ConfigMap()) == EMPTY_METADATA


def test_an_embedded_struct_is_a_message_of_its_own_on_the_wire() -> None:
    volume = core_v1.Volume(name="v", empty_dir=core_v1.EmptyDirVolumeSource(medium="Memory"))
    assert encode_message(volume) == bytes.fromhex("0a0176 120a 1208 0a06") + b"Memory"
    assert decode_message(core_v1.Volume, encode_message(volume)) == volume


@pytest.mark.parametrize(
    ("port", "written"),
    [(80, "0800 1050 1a00"), ("web", "0801 1000 1a03 776562")],
)
def test_an_int_or_string_has_all_three_fields(port: int | str, written: str) -> None:
    probe = core_v1.TCPSocketAction(port=port)
    body = bytes.fromhex(written)
    assert encode_message(probe) == b"\x0a" + bytes([len(body)]) + body + b"\x12\0"


def test_times_are_seconds_and_nanos() -> None:
    stamped = meta_v1.ObjectMeta(deletion_timestamp=Time(1))
    assert bytes.fromhex("4a04 0801 1000") in encode_message(stamped)


def test_a_list_with_a_name_of_its_own_is_a_message() -> None:
    """``userInfo.extra`` is a map of lists, which protobuf can express only by a message in between."""
    from cathedra.api.core.authentication_v1 import UserInfo

    assert encode_message(UserInfo(extra={"k": ("v",)})).endswith(bytes.fromhex("2208 0a016b 1203 0a0176"))


def test_negative_numbers_take_ten_bytes() -> None:
    assert encode_message(batch_v1.PodFailurePolicyOnExitCodesRequirement(values=(-1,))).endswith(
        b"\x18" + b"\xff" * 9 + b"\x01"
    )


def test_numbers_in_a_row_may_be_packed() -> None:
    packed = bytes.fromhex("1a02 0102")
    assert decode_message(batch_v1.PodFailurePolicyOnExitCodesRequirement, packed).values == (1, 2)


def test_a_message_in_parts_is_the_message_of_the_parts() -> None:
    parts = bytes.fromhex("0a03 0a0161 0a03 1a0162")
    assert decode_message(core_v1.ConfigMap, parts).metadata == meta_v1.ObjectMeta(name="a", namespace="b")


def test_unknown_fields_are_passed_over() -> None:
    unknown = bytes.fromhex("f83f01 c23e0161 b33e 0801 b43e")
    assert decode_message(core_v1.ConfigMap, EMPTY_METADATA + unknown) == core_v1.ConfigMap()


def test_fields_of_a_later_release_are_passed_over() -> None:
    resource = NodeAllocatableResource()
    sent = encode_message(Device(name="d", node_allocatable_resources={"cpu": resource}))
    assert decode_message(Device, sent, "1.37").node_allocatable_resources == {"cpu": resource}
    assert decode_message(Device, sent, "1.36") == Device(name="d")


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("0aff", "unexpected EOF"),
        ("0a05", "unexpected EOF"),
        ("0801", "proto: wrong wireType = 0 for field ObjectMeta"),
        ("0c", "proto: ConfigMap: wiretype end group for non-group"),
        ("0001", "proto: ConfigMap: illegal tag 0 (wire type 0)"),
        ("20ffffffffffffffffffff01", "proto: integer overflow"),
        ("17", "proto: illegal wireType 7"),
    ],
)
def test_broken_bytes_are_refused_in_go_s_words(broken: str, message: str) -> None:
    with pytest.raises(ProtobufError) as caught:
        decode_message(core_v1.ConfigMap, bytes.fromhex(broken))
    assert str(caught.value) == message


def test_opaque_parts_must_be_json() -> None:
    with pytest.raises(ProtobufError, match="no JSON"):
        decode_message(core_v1.Pod, _pod_with_fields(b"{"))
    assert decode_message(core_v1.Pod, _pod_with_fields(b"{}")).metadata.managed_fields[0].fields_v1 == RawJSON(b"{}")


def _pod_with_fields(raw: bytes) -> bytes:
    fields = b"\x0a" + bytes([len(raw)]) + raw
    entry = b"\x3a" + bytes([len(fields)]) + fields
    managed = b"\x8a\x01" + bytes([len(entry)]) + entry
    return b"\x0a" + bytes([len(managed)]) + managed


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=60))
def test_no_bytes_do_worse_than_being_refused(data: bytes) -> None:
    for kind in (core_v1.Pod, ResourceSlice, apiextensions_v1.CustomResourceDefinition):
        try:
            decode_message(kind, data)
        except ProtobufError:
            continue


def test_lists_and_quantities_within_maps() -> None:
    quota = core_v1.ResourceQuota(spec=core_v1.ResourceQuotaSpec(hard={"pods": Quantity("4")}))
    assert bytes.fromhex("0a0b 0a04 706f6473 1203 0a0134") in encode_message(quota)
    roles = rbac_v1.RoleList(items=(rbac_v1.Role(),))
    assert decode_message(rbac_v1.RoleList, encode_message(roles)) == roles
    assert decode_message(ResourceClaim, encode_message(ResourceClaim())) == ResourceClaim()
