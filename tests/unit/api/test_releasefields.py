"""Objects as the decoder of a release reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args, get_origin

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core import resource_v1beta1
from cathedra.api.core.core_v1 import Pod, PodStatus
from cathedra.api.decoding import decode_json
from cathedra.api.quantity import Format, Quantity
from cathedra.api.releasefields import of_release, without_unknown_fields
from cathedra.api.resource import ResourceClaim, ResourceClaimTemplate, ResourceSlice
from cathedra.api.scheme import kind_of
from cathedra.api.struct import KubeStruct, encode, from_dict
from cathedra.releases import DEFAULT_RELEASE, NEWEST, RELEASES
from tests.unit.api.protobuf.objects import objects

KINDS = (Pod, ResourceClaim, ResourceSlice, resource_v1beta1.ResourceClaim)
SLICE = {
    "metadata": {"name": "a"},
    "spec": {
        "driver": "d",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "skipNodeOperations": ["Prepare"],
        "devices": [{"name": "x", "taints": [{"key": "k", "effect": "NoExecute"}]}, {"name": "y"}],
    },
}


@pytest.mark.parametrize(("release", "skips", "taints"), [("1.37", 1, 1), ("1.36", 0, 1), ("1.32", 0, 0)])
def test_fields_of_later_releases_are_dropped(release: str, skips: int, taints: int) -> None:
    fitted = of_release(from_dict(ResourceSlice, SLICE), release)
    assert (len(fitted.spec.skip_node_operations or ()), len(fitted.spec.devices[0].taints)) == (skips, taints)


def test_an_object_without_such_fields_stays_the_same_object_in_all_its_parts() -> None:
    """Updates compare parts by identity."""
    piece = from_dict(ResourceSlice, SLICE)
    assert of_release(piece, NEWEST) is piece
    assert of_release(piece, "1.36").spec.devices is piece.spec.devices


@given(st.integers(0, 2 * 10**6), st.sampled_from([1, 1000, 1024]), st.sampled_from(Format))
def test_quantities_are_as_the_decoder_reads_them(amount: int, unit: int, form: Format) -> None:
    """Amounts of a status are computed; those of a spec were parsed."""
    pod = Pod(status=PodStatus(allocated_resources={"memory": Quantity.of_value(amount * unit, form)}))
    assert encode(of_release(pod, NEWEST)) == encode(decode_json(Pod, kind_of(Pod), encode(pod)).object)


@given(st.data())
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_is_what_the_decoder_leaves(kind: type[KubeStruct], data: st.DataObject) -> None:
    """Within the process, in sessions and over HTTP the same fields are stored."""
    obj = data.draw(objects(kind))
    release = data.draw(st.sampled_from(RELEASES))
    body = encode(obj)
    gvk = kind_of(kind)
    parsed, wanted = decode_json(kind, gvk, body).object, decode_json(kind, gvk, body, release).object
    assert of_release(parsed, release) == without_unknown_fields(parsed, release) == wanted


FIVE_GB = Quantity.of_value(5 * 10**9, Format.BINARY_SI)
"""Written as ``5000000000``, and as ``5G`` by a reader of that."""


def amounts_of(value: Any) -> list[str]:
    """Return the texts of all quantities within a value."""
    if isinstance(value, Quantity):
        return [value.text]
    if isinstance(value, msgspec.Struct):
        return [text for name in value.__struct_fields__ for text in amounts_of(getattr(value, name))]
    if isinstance(value, Mapping):
        return [text for one in value.values() for text in amounts_of(one)]
    return [text for one in value for text in amounts_of(one)] if isinstance(value, tuple) else []


def filled(kind: Any) -> Any:
    """Return a value of a type in which every field of structs and quantities is set."""
    if kind is Quantity:
        return FIVE_GB
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if not kind.__module__.startswith("cathedra.api.resource"):
            return None
        made = {one.name: filled(one.type) for one in msgspec.structs.fields(kind)}
        return kind(**{name: value for name, value in made.items() if value is not None})
    origin, arguments = get_origin(kind), get_args(kind)
    inner = next((value for one in arguments if (value := filled(one)) is not None), None)
    if inner is None:
        return None
    return (inner,) if origin is tuple else {"a": inner} if origin is dict else inner


@pytest.mark.parametrize("kind", [ResourceSlice, ResourceClaim, ResourceClaimTemplate])
def test_every_quantity_of_devices_is_stored_as_a_reader_writes_it(kind: type[KubeStruct]) -> None:
    written = filled(kind)
    assert set(amounts_of(written)) == {"5000000000"}
    assert set(amounts_of(of_release(written, DEFAULT_RELEASE))) == {"5G"}
    assert set(amounts_of(without_unknown_fields(written, DEFAULT_RELEASE))) == {"5000000000"}
