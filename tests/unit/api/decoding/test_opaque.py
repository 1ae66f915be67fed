"""Opaque parts keep the bytes that they were sent with, wherever they stand and however their names are spelled."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.apps_v1 import ControllerRevision
from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.decoding import _opaque
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import KubeStruct, decoder_of

_ENTRY = '{"manager":"m","fieldsV1":{"f:data" : {}}}'
_OWNED = f'{{"metadata":{{"managedFields":[{_ENTRY}]}}}}'
_BODIES: list[tuple[type[KubeStruct], str]] = [
    (ConfigMap, '{"metadata":{"name":"a"},"data":{"fieldsV1":"x"}}'),
    (ConfigMap, _OWNED),
    (ConfigMap, _OWNED.replace("fieldsV1", "fields\\u00561")),
    (ConfigMap, '{"data":{"a":"b\\\\c"}}'),
    (ControllerRevision, '{"data":{"spec" : {}},"revision":1}'),
    (ControllerRevision, '{"revision":1}'),
    (ResourceClaim, '{"spec":{"devices":{"config":[{"opaque":{"driver":"d","parameters":{"kind":"P" , "a":1.0}}}]}}}'),
    (ResourceClaim, '{"spec":{"devices":{"requests":[{"name":"r"}]}}}'),
]


def merged(kind: type[KubeStruct], body: bytes) -> Any:
    """Return the result of the second decoding, which is always made here."""
    built = _opaque._skeleton(kind)
    assert built is not None
    return _opaque._merged(decoder_of(kind).decode(body), _opaque._decoder(built[0]).decode(body))


@pytest.mark.parametrize(("kind", "body"), _BODIES)
def test_bodies_without_the_names_of_opaque_parts_are_spared_the_second_decoding(
    kind: type[KubeStruct], body: str
) -> None:
    raw = body.encode()
    assert _opaque.restore_opaque(decoder_of(kind).decode(raw), raw) == merged(kind, raw)


@given(
    data=st.dictionaries(st.sampled_from(["fieldsV1", "a", "\\"]), st.text('"\\afV1', max_size=5), max_size=3),
    owned=st.booleans(),
    spelled=st.sampled_from(["fieldsV1", "fields\\u00561", "\\u0066ieldsV1"]),
)
def test_whatever_the_texts_are_the_bytes_are_found(data: dict[str, str], owned: bool, spelled: str) -> None:
    managed = _ENTRY.replace("fieldsV1", spelled) if owned else "{}"
    raw = b'{"metadata":{"managedFields":[%b]},"data":%b}' % (managed.encode(), msgspec.json.encode(data))
    found = _opaque.restore_opaque(decoder_of(ConfigMap).decode(raw), raw)
    assert found == merged(ConfigMap, raw)
    if owned:
        assert bytes(found.metadata.managed_fields[0].fields_v1.data) == b'{"f:data" : {}}'
