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
from cathedra.node.claims.checkpoint import FileCheckpoint, decode_checkpoint, encode_checkpoint
from cathedra.node.claims.claiminfo import ClaimInfo, DriverState
from cathedra.node.claims.errors import CorruptCheckpoint
from cathedra.node.plugins.client import PluginDevice

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
