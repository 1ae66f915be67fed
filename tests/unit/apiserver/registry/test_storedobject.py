"""Stored objects are decoded when they are first read, and share equal parts."""

from __future__ import annotations

import pytest

from cathedra.api.core.core_v1 import Pod, PodSpec
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import encode
from cathedra.apiserver.registry.storedobject import EncodedForms, StoredObject
from cathedra.apiserver.storage.protocol import StorageError


def came(revision: int, previous: StoredObject | None = None) -> StoredObject:
    metadata = ObjectMeta(name="p", namespace="n", resource_version=str(revision))
    body = encode(Pod(metadata=metadata, spec=PodSpec(hostname="h")))
    return StoredObject.unread("n/p", revision, Pod, body, previous)


def test_it_shares_parts_with_the_last_state_that_was_read() -> None:
    read = came(1)
    first = read.object
    between = came(2, read)
    last = came(3, between)
    assert last.object.metadata.resource_version == "3"
    assert last.object.spec is first.spec
    assert between.object.metadata.resource_version == "2"
    assert last.object is last.object


def test_it_is_whole_though_the_bytes_of_the_earlier_state_have_gone() -> None:
    read = came(1)
    first = read.object
    read.forget_forms()
    assert came(2, read).object.spec == first.spec


def test_bytes_are_kept_until_they_are_read() -> None:
    entry = came(1)
    entry.forget_forms()
    assert entry.object.spec.hostname == "h"
    entry.forget_forms()
    assert entry.body_in(Pod) is None


@pytest.mark.parametrize("body", [b"{", b'{"spec":[]}', b'{"metadata":{"name":"\xff"}}'])
def test_what_spells_no_object_is_found_out_when_it_is_asked_for(body: bytes) -> None:
    entry = StoredObject.unread("n/p", 1, Pod, body, None)
    assert entry.body_in(Pod) == body
    with pytest.raises(StorageError, match="the object of n/p cannot be read"):
        _ = entry.object


def test_only_the_last_objects_that_were_encoded_for_readers_keep_their_forms() -> None:
    forms = EncodedForms(2500)
    bodies: list[dict[type, bytes]] = [{Pod: b"x" * 1000} for _ in range(4)]
    entries = [StoredObject("n/p", Pod(), revision, _bodies=body) for revision, body in enumerate(bodies)]
    for body in bodies:
        forms.add(body, 1000)
    assert [entry.body_in(Pod) is not None for entry in entries] == [False, False, True, True]


def test_the_last_object_that_was_encoded_keeps_its_form_however_large_it_is() -> None:
    forms, body = EncodedForms(10), {Pod: b"x" * 1000}
    forms.add(body, 1000)
    assert StoredObject("n/p", Pod(), 1, _bodies=body).body_in(Pod) is not None
