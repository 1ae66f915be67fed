"""The bytes on the wire equal the golden vectors (docs/spec/protocols.md §13)."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra._proto import (
    dra_health_v1_pb2,
    dra_health_v1alpha1_pb2,
    dra_v1_pb2,
    dra_v1beta1_pb2,
    pluginregistration_v1_pb2,
)

DEVICE = {
    "request_names": ["gpu"],
    "pool_name": "node-a",
    "device_name": "gpu-0",
    "cdi_device_ids": ["example.com/gpu=gpu-0"],
}
PREPARED = (
    "0a350a0436663264122d0a2b0a0367707512066e6f64652d611a056770752d3022156578616d706c652e636f6d2f6770753d6770752d30"
)
SHARED = (
    "0a390a043666326412310a2f0a0367707512066e6f64652d611a056770752d30"
    "22156578616d706c652e636f6d2f6770753d6770752d302a027331"
)
PLUGIN_INFO = (
    "0a09445241506c7567696e120f6770752e6578616d706c652e636f6d1a312f7661722f6c69622f6b7562656c65742f706c75"
    "67696e732f6770752e6578616d706c652e636f6d2f6472612e736f636b220c76312e445241506c7567696e22117631626574"
    "61312e445241506c7567696e"
)
HEALTH = "0a200a0f0a066e6f64652d6112056770752d3010021880e2cfaa06203c2a03454343"


def prepared(api: Any, **device: Any) -> Any:
    entry = api.NodePrepareResourceResponse(devices=[api.Device(**DEVICE, **device)])
    return api.NodePrepareResourcesResponse(claims={"6f2d": entry})


def refused(api: Any) -> Any:
    return api.NodePrepareResourcesResponse(claims={"6f2d": api.NodePrepareResourceResponse(error="boom")})


def unprepared(api: Any) -> Any:
    response = api.NodeUnprepareResourcesResponse()
    response.claims["6f2d"].SetInParent()
    return response


def unhealthy(api: Any) -> Any:
    device = api.DeviceHealth(
        device=api.DeviceIdentifier(pool_name="node-a", device_name="gpu-0"),
        health=api.UNHEALTHY,
        last_updated_time=1_700_000_000,
        health_check_timeout_seconds=60,
        message="ECC",
    )
    return api.NodeWatchResourcesResponse(devices=[device])


def request(api: Any) -> Any:
    return api.NodePrepareResourcesRequest(claims=[api.Claim(namespace="default", uid="6f2d", name="c1")])


VECTORS = {
    "plugin info": (
        pluginregistration_v1_pb2.PluginInfo(
            type="DRAPlugin",
            name="gpu.example.com",
            endpoint="/var/lib/kubelet/plugins/gpu.example.com/dra.sock",
            supported_versions=["v1.DRAPlugin", "v1beta1.DRAPlugin"],
        ),
        PLUGIN_INFO,
    ),
    "registered": (pluginregistration_v1_pb2.RegistrationStatus(plugin_registered=True), "0801"),
    "registration refused": (pluginregistration_v1_pb2.RegistrationStatus(error="boom"), "1204626f6f6d"),
    "prepare request": (request(dra_v1_pb2), "0a130a0764656661756c741204366632641a026331"),
    "prepare request, v1beta1": (request(dra_v1beta1_pb2), "0a130a0764656661756c741204366632641a026331"),
    "prepared": (prepared(dra_v1_pb2), PREPARED),
    "prepared, v1beta1": (prepared(dra_v1beta1_pb2), PREPARED),
    "prepared a share": (prepared(dra_v1_pb2, share_id="s1"), SHARED),
    "prepare refused": (refused(dra_v1_pb2), "0a0e0a043666326412061204626f6f6d"),
    "unprepared": (unprepared(dra_v1_pb2), "0a080a04366632641200"),
    "health": (unhealthy(dra_health_v1_pb2), HEALTH),
    "health, v1alpha1": (unhealthy(dra_health_v1alpha1_pb2), HEALTH),
}


@pytest.mark.parametrize("name", VECTORS)
def test_messages_encode_to_the_golden_bytes_and_decode_from_them(name: str) -> None:
    message, golden = VECTORS[name]
    assert message.SerializeToString().hex() == golden
    assert type(message).FromString(bytes.fromhex(golden)) == message


def test_an_absent_share_id_differs_from_an_empty_one() -> None:
    absent = dra_v1_pb2.Device()
    empty = dra_v1_pb2.Device(share_id="")
    assert not absent.HasField("share_id")
    assert empty.HasField("share_id")
    assert absent.SerializeToString() != empty.SerializeToString()


@pytest.mark.parametrize(
    ("module", "service"),
    [
        ("pluginregistration_v1_pb2", "pluginregistration.Registration"),
        ("dra_v1_pb2", "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"),
        ("dra_v1beta1_pb2", "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin"),
        ("dra_health_v1_pb2", "v1.DRAResourceHealth"),
        ("dra_health_v1alpha1_pb2", "v1alpha1.DRAResourceHealth"),
        ("podresources_v1_pb2", "v1.PodResourcesLister"),
        ("podresources_v1alpha1_pb2", "v1alpha1.PodResourcesLister"),
    ],
)
def test_services_have_the_names_that_peers_call(module: str, service: str) -> None:
    import importlib

    descriptor = importlib.import_module(f"cathedra._proto.{module}").DESCRIPTOR
    assert [s.full_name for s in descriptor.services_by_name.values()] == [service]
