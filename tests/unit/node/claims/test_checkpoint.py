"""The claim-info file in the kubelet's format (docs/spec/node.md §11.1)."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.files.atomic import write_atomic
from cathedra.node.claims.checkpoint import (
    ClaimInfo,
    ClaimInfoCache,
    CorruptCheckpoint,
    DriverState,
    FileCheckpoint,
    decode_checkpoint,
    encode_checkpoint,
)
from cathedra.node.plugins.client import ClaimReference, PluginDevice

EXAMPLE = ClaimInfo(
    namespace="default",
    name="example",
    uid="067798be-454e-4be4-9047-1aa06aea63f7",
    pod_uids={"139cdb46-f989-4f17-9561-ca10cfb509a6"},
    drivers={
        "test-driver.cdi.k8s.io": DriverState(
            (PluginDevice("worker-1", "dev-1", ("test request",), ("example.com/example=cdi-example",)),)
        )
    },
)


def test_an_empty_cache_has_the_known_checksum() -> None:
    assert json.loads(encode_checkpoint([])) == {
        "Data": '{"kind":"DRACheckpoint","apiVersion":"checkpoint.dra.kubelet.k8s.io/v1","ClaimInfoStateList":null}',
        "Checksum": 4010664294,
    }


def test_one_claim_has_the_known_checksum() -> None:
    assert json.loads(encode_checkpoint([EXAMPLE]))["Checksum"] == 1656016162


texts = st.text(max_size=8)
devices = st.builds(
    PluginDevice,
    pool=texts,
    device=texts,
    request_names=st.lists(texts, max_size=2).map(tuple),
    cdi_device_ids=st.lists(texts, max_size=2).map(tuple),
    share_id=st.none() | texts,
)
states = st.builds(
    DriverState, st.lists(devices, max_size=2).map(tuple), st.frozensets(st.sampled_from(["*", "NodePrepareResources"]))
)
infos = st.builds(
    ClaimInfo,
    namespace=texts,
    name=texts,
    uid=texts,
    pod_uids=st.sets(texts, max_size=2),
    drivers=st.dictionaries(texts, states, max_size=2),
)


@given(st.lists(infos, max_size=3, unique_by=lambda info: (info.namespace, info.name)))
def test_what_is_written_is_read_back(written: list[ClaimInfo]) -> None:
    key = lambda info: (info.namespace, info.name)  # noqa: E731
    assert sorted(decode_checkpoint(encode_checkpoint(written)), key=key) == sorted(written, key=key)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        encode_checkpoint([EXAMPLE]).replace(b"worker-1", b"worker-2"),
        encode_checkpoint([EXAMPLE]).replace(b"1656016162", b"1656016163"),
    ],
)
def test_a_damaged_file_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptCheckpoint, match="checkpoint is corrupted"):
        decode_checkpoint(data)


async def test_the_file_is_replaced_whole_and_a_missing_one_is_empty(tmp_path: Path) -> None:
    store = FileCheckpoint(tmp_path / "dra_manager_state")
    assert store.load() == []
    await store.save([EXAMPLE])
    assert store.load() == [EXAMPLE]
    assert os.listdir(tmp_path) == ["dra_manager_state"]
    write_atomic(tmp_path / "dra_manager_state", b"{}")
    with pytest.raises(CorruptCheckpoint, match="please drain node and remove DRA state file"):
        store.load()


@pytest.mark.parametrize("data", [b"null", b"[]", b'{"Data": null, "Checksum": 0}'])
def test_json_of_another_shape_is_reported_in_words(data: bytes) -> None:
    with pytest.raises(CorruptCheckpoint, match="it does not have the form of a checkpoint"):
        decode_checkpoint(data)


def test_lists_that_go_writes_as_null_or_leaves_out_are_empty() -> None:
    device = {"PoolName": "p", "DeviceName": "d", "RequestNames": None, "CDIDeviceIDs": None}
    claim = {"ClaimUID": "u", "ClaimName": "c", "Namespace": "n", "PodUIDs": None}
    drivers = {"a": {"Devices": None}, "b": {}, "c": {"Devices": [device], "SkipNodeOperations": None}}
    states = [{**claim, "DriverState": drivers}, {**claim, "DriverState": None}]
    head = {"kind": "DRACheckpoint", "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1"}

    def read(**content: Any) -> list[ClaimInfo]:
        data = json.dumps({**head, **content})
        return decode_checkpoint(json.dumps({"Data": data, "Checksum": zlib.crc32(data.encode())}).encode())

    first, second = read(ClaimInfoStateList=states)
    assert first.drivers == {
        "a": DriverState(()),
        "b": DriverState(()),
        "c": DriverState((PluginDevice("p", "d", (), ()),)),
    }
    assert (second.pod_uids, second.drivers) == (set(), {})
    assert read() == []


# What the node knows of claims.


def info(name: str, *pods: str, device: str = "") -> ClaimInfo:
    devices = (PluginDevice("pool", device, ("r",), ()),) if device else ()
    return ClaimInfo("ns", name, f"uid-{name}", set(pods), {"d": DriverState(devices)})


def test_claims_are_known_by_name_and_found_by_pod() -> None:
    cache = ClaimInfoCache()
    one, two = info("one", "p", "q"), info("two", "q")
    cache.add(one)
    cache.add(two)
    assert cache.get("ns", "one") is one
    assert cache.get("other", "one") is None
    assert cache.of_pod("q") == [one, two]
    assert cache.pod_uids() == {"p", "q"}
    cache.remove(one)
    assert (len(cache), list(cache)) == (1, [two])


def test_a_claim_made_again_takes_the_place_of_its_namesake() -> None:
    cache = ClaimInfoCache()
    cache.add(info("one"))
    again = ClaimInfo("ns", "one", "another-uid")
    cache.add(again)
    assert list(cache) == [again]
    assert again.reference == ClaimReference("ns", "another-uid", "one")


def test_pods_are_found_by_the_devices_that_they_use() -> None:
    cache = ClaimInfoCache()
    cache.add(info("one", "p", device="gpu-0"))
    cache.add(info("two", "q", device="gpu-1"))
    assert cache.with_device("d", [("pool", "gpu-1")]) == {"q"}
    assert cache.with_device("d", [("elsewhere", "gpu-1")]) == set()
    assert cache.with_device("other", [("pool", "gpu-1")]) == set()


@pytest.mark.parametrize(
    ("operations", "prepare", "unprepare"),
    [
        ((), False, False),
        (("NodePrepareResources",), True, False),
        (("NodeUnprepareResources",), False, True),
        (("*",), True, True),
    ],
)
def test_a_driver_may_be_spared_calls(operations: tuple[str, ...], prepare: bool, unprepare: bool) -> None:
    state = DriverState(skip=frozenset(operations))
    assert (state.skips_prepare, state.skips_unprepare) == (prepare, unprepare)
