"""Fuzzing of files that a crash, a driver or a person may have left: read strictly, or refused readably."""

from __future__ import annotations

import json
import tempfile
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from cathedra.apiserver.registry.layout import LogLayout, SharedLayout
from cathedra.apiserver.storage.protocol import Record, StorageError
from cathedra.cdi.spec import CDIError, read_spec
from cathedra.client.kubeconfig import KubeconfigError, load
from cathedra.devicemetadata import MetadataError, decode_metadata_stream
from cathedra.kinds.served import all_definitions
from cathedra.node.claims.checkpoint import CorruptCheckpoint, decode_checkpoint
from cathedra.releases import FeatureGates
from tools.fuzzing import Layer

__all__ = ["NAMES", "layer"]

_CDI: Final = b"""{"cdiVersion":"0.6.0","kind":"example.com/gpu","annotations":{"a":"b"},
"containerEdits":{"env":["A=1"]},"devices":[{"name":"0","annotations":{"c":"d"},"containerEdits":{"env":["B=2"],
"deviceNodes":[{"path":"/dev/x","hostPath":"/dev/y","type":"c","major":1,"minor":2,"fileMode":438,"permissions":"rw","uid":0,"gid":0}],"mounts":[{"hostPath":"/a","containerPath":"/b",
"options":["ro"]}],"hooks":[{"hookName":"createRuntime","path":"/h","args":["a"],"env":["E=1"],"timeout":5}]}}]}"""
_CDI_YAML: Final = b"""cdiVersion: 0.6.0
kind: example.com/gpu
devices:
- name: "0"
  containerEdits: &edits
    env: [A=1]
- name: "1"
  containerEdits: *edits
"""
_METADATA: Final = b"""{"apiVersion":"metadata.resource.k8s.io/v1alpha1","kind":"DeviceMetadata",
"metadata":{"name":"c","namespace":"n","uid":"u","generation":1},"podClaimName":"p","requests":[{"name":"r","devices":[{"driver":"d.example.com","pool":"p","device":"0",
"attributes":{"a":{"string":"s"},"b":{"int":1},"c":{"bool":true},"e":{"version":"1.2.3"}},
"networkData":{"interfaceName":"eth0","ips":["10.0.0.1/24"],"hardwareAddress":"aa:bb"}}]}]}
{"apiVersion":"metadata.resource.k8s.io/v9","kind":"DeviceMetadata"}"""
_KUBECONFIG: Final = b"""apiVersion: v1
kind: Config
current-context: c
clusters:
- name: k
  cluster: {server: "https://127.0.0.1:6443", certificate-authority-data: YQ==, insecure-skip-tls-verify: false}
users:
- name: u
  user: {token: t, client-certificate-data: YQ==, client-key-data: YQ==}
contexts:
- name: c
  context: {cluster: k, user: u, namespace: n}
"""
_OBJECT: Final = b"""{"metadata":{"name":"x","namespace":"n","uid":"u","resourceVersion":"1",
"creationTimestamp":"2024-01-01T00:00:00Z",
"managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}}}]},
"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"1"}}}]},"status":{"phase":"Pending"}}"""
_CHECKPOINT: Final[dict[str, Any]] = {
    "kind": "DRACheckpoint",
    "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1",
    "ClaimInfoStateList": [
        {
            "ClaimUID": "u",
            "ClaimName": "c",
            "Namespace": "n",
            "PodUIDs": {"p": {}},
            "DriverState": {
                "d.example.com": {
                    "Devices": [
                        {
                            "PoolName": "p",
                            "DeviceName": "0",
                            "ShareID": None,
                            "RequestNames": ["r"],
                            "CDIDeviceIDs": ["v/c=0"],
                        }
                    ]
                }
            },
        }
    ],
}


def _in_file(suffix: str, read: Callable[[Path], Any], data: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="cathedra-fuzz-") as directory:
        path = Path(directory) / f"input{suffix}"
        path.write_bytes(data)
        read(path)


def _checkpoint(data: bytes) -> None:
    """The content, under the right checksum: else no mutation would get past it."""
    text = data.decode("utf-8", "replace")
    decode_checkpoint(data)
    decode_checkpoint(json.dumps({"Data": text, "Checksum": zlib.crc32(text.encode())}).encode())


def _stored(layout: LogLayout | SharedLayout) -> Callable[[bytes], None]:
    gates = FeatureGates.for_release("1.37")
    pods = next(one for one in all_definitions(gates) if one.plural == "pods" and not one.group)
    return lambda data: layout.read(pods, Record("/pods/n/x", 7, data))


def _lenient(read: Callable[[bytes], Any], data: bytes) -> None:
    try:
        read(data)
    except (CorruptCheckpoint, StorageError):
        return


_Made = tuple[Callable[[], Callable[[bytes], Any]], Sequence[bytes], tuple[type[BaseException], ...]]
_FILES: Final[dict[str, _Made]] = {
    "cdi-json": (lambda: partial(_in_file, ".json", read_spec), (_CDI,), (CDIError,)),
    "cdi-yaml": (lambda: partial(_in_file, ".yaml", read_spec), (_CDI_YAML, _CDI), (CDIError,)),
    "device-metadata": (lambda: decode_metadata_stream, (_METADATA,), (MetadataError,)),
    "kubeconfigs": (
        lambda: partial(_in_file, "", lambda path: load(path, environment={})),
        (_KUBECONFIG,),
        (KubeconfigError,),
    ),
    "node-checkpoints": (
        lambda: partial(_lenient, _checkpoint),
        (json.dumps(_CHECKPOINT).encode(),),
        (CorruptCheckpoint,),
    ),
    "stored-objects": (lambda: _stored(LogLayout("1.37")), (_OBJECT,), (StorageError,)),
    "etcd-values": (
        lambda: _stored(SharedLayout("1.37")),
        (
            b'{"kind":"Pod","apiVersion":"v1",' + _OBJECT[1:],
            b"k8s\x00\n\x0b\n\x02v1\x12\x03Pod\x12\x06\n\x04\n\x01x\x1a\x00",
        ),
        (StorageError,),
    ),
}
NAMES: Final = tuple(_FILES)


def layer(name: str) -> Layer:
    """The layer of that name."""
    make, seeds, refusals = _FILES[name]
    return Layer(name, make(), lambda: seeds, refusals)
