"""Extended resources become claims, in every kind of workload, with notes on guesses."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from cathedra.allocation import InvalidInput
from cathedra.insight import convert_device_plugin, lint
from cathedra.insight.conversion.convert import ConvertedFile

POD = """\
# two of them
apiVersion: v1
kind: Pod
metadata:
  name: train
  namespace: team
spec:
  containers:
  - name: main
    image: train   # latest
    resources:
      limits:
        cpu: "4"   # cores
        nvidia.com/gpu: 2
  restartPolicy: Never
"""
EXPECTED = """\
# two of them
apiVersion: v1
kind: Pod
metadata:
  name: train
  namespace: team
spec:
  containers:
  - name: main
    image: train   # latest
    resources:
      limits:
        cpu: "4"   # cores
      claims:
      - name: devices
  restartPolicy: Never
  resourceClaims:
  - name: devices
    resourceClaimTemplateName: train-devices
---
"""


def converted(text: str, *resources: str) -> ConvertedFile:
    (file,) = convert_device_plugin(text, resources).files
    return file


def documents(text: str, *resources: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(converted(text, *resources).text))


def test_a_pod_asks_by_a_claim_and_everything_else_stays() -> None:
    file = converted(POD)
    assert file.text.startswith(EXPECTED)
    assert file.changes == ("Pod/train: 2 × nvidia.com/gpu → template train-devices",)
    _, gpu, template = yaml.safe_load_all(file.text)
    assert gpu["metadata"]["name"] == "gpu.nvidia.com"
    assert template["metadata"] == {"name": "train-devices", "namespace": "team"}
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    assert request == {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}


def test_the_result_is_accepted_and_has_no_findings() -> None:
    assert lint(converted(POD).text).findings == ()


def test_what_is_not_known_is_said_in_notes_and_in_comments() -> None:
    file = converted(POD.replace("nvidia.com/gpu", "example.com/fpga_x"))
    assert any(
        "that the driver for example.com/fpga_x is called fpga-x.example.com is a guess" in one for one in file.notes
    )
    assert "# class fpga-x.example.com: that the driver" in file.text
    assert "# with extendedResourceName: example.com/fpga_x in its spec" in file.text


@pytest.mark.parametrize(
    ("kind", "group", "path"),
    [
        ("Deployment", "apps/v1", "template"),
        ("StatefulSet", "apps/v1", "template"),
        ("DaemonSet", "apps/v1", "template"),
        ("Job", "batch/v1", "template"),
        ("CronJob", "batch/v1", "jobTemplate.spec.template"),
    ],
)
def test_workloads_of_every_sort_are_changed(kind: str, group: str, path: str) -> None:
    inner: Any = yaml.safe_load(POD)["spec"]
    for name in reversed(["spec", *path.split("."), "spec"]):
        inner = {name: inner}
    text = yaml.safe_dump({"apiVersion": group, "kind": kind, "metadata": {"name": "web"}, **inner}, sort_keys=False)
    found: Any = documents(text)[0]
    for name in ("spec", *path.split("."), "spec"):
        found = found[name]
    assert found["resourceClaims"] == [{"name": "devices", "resourceClaimTemplateName": "web-devices"}]
    assert found["containers"][0]["resources"] == {"limits": {"cpu": "4"}, "claims": [{"name": "devices"}]}


def test_several_containers_have_requests_of_their_own() -> None:
    second = (
        "  - name: side\n    resources:\n      requests: {nvidia.com/gpu: '1'}\n      limits: {nvidia.com/gpu: '1'}\n"
    )
    pod, _, template = documents(POD.replace("  restartPolicy", second + "  restartPolicy"))
    assert [one["resources"]["claims"] for one in pod["spec"]["containers"]] == [
        [{"name": "devices", "request": "main-gpu"}],
        [{"name": "devices", "request": "side-gpu"}],
    ]
    assert pod["spec"]["containers"][1]["resources"].keys() == {"claims"}
    assert [one["name"] for one in template["spec"]["spec"]["devices"]["requests"]] == ["main-gpu", "side-gpu"]


def test_several_resources_have_classes_of_their_own() -> None:
    found = documents(POD.replace("nvidia.com/gpu: 2", "nvidia.com/gpu: 2\n        rdma/nic: 1"))
    assert [one["kind"] for one in found] == ["Pod", "DeviceClass", "DeviceClass", "ResourceClaimTemplate"]


def test_one_resource_alone_can_be_chosen() -> None:
    pod = documents(
        POD.replace("nvidia.com/gpu: 2", "nvidia.com/gpu: 2\n        example.com/nic: 1"), "example.com/nic"
    )[0]
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "4", "nvidia.com/gpu": 2}


def test_claims_that_are_there_are_kept() -> None:
    text = POD.replace("      limits:", "      claims:\n      - name: other # mine\n      limits:").replace(
        "  restartPolicy", "  resourceClaims: [{name: other, resourceClaimName: o}]\n  restartPolicy"
    )
    pod = documents(text)[0]
    assert pod["spec"]["containers"][0]["resources"]["claims"] == [{"name": "other"}, {"name": "devices"}]
    assert [one["name"] for one in pod["spec"]["resourceClaims"]] == ["other", "devices"]


def test_init_containers_are_told_about() -> None:
    text = POD.replace(
        "  containers:",
        "  initContainers:\n  - name: warm\n    resources: {limits: {nvidia.com/gpu: 1}}\n  containers:",
    )
    file = converted(text)
    assert any("init container warm gets devices of its own" in one for one in file.notes)


def test_a_class_is_made_once_for_all() -> None:
    found = documents(f"{POD}---\n{POD.replace('train', 'other')}")
    assert [one["kind"] for one in found] == ["Pod", "Pod", "DeviceClass", *["ResourceClaimTemplate"] * 2]


def test_json_becomes_a_list() -> None:
    text = json.dumps(yaml.safe_load(POD), indent=2)
    made = json.loads(converted(text).text)
    assert [one["kind"] for one in made["items"]] == ["Pod", "DeviceClass", "ResourceClaimTemplate"]
    again = json.dumps({"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(POD)] * 2})
    assert [one["kind"] for one in json.loads(converted(again).text)["items"]].count("ResourceClaimTemplate") == 2


def test_pods_in_lists_are_changed() -> None:
    inside = POD.removeprefix("# two of them\n").replace("\n", "\n  ").rstrip()
    text = f"apiVersion: v1\nkind: List\nitems:\n- {inside}\n- {inside}\n"
    found = documents(text)
    assert all("resourceClaims" in one["spec"] for one in found[0]["items"])


@pytest.mark.parametrize(
    "text",
    [
        POD.replace("nvidia.com/gpu: 2", "memory: 1Gi"),
        POD.replace("nvidia.com/gpu: 2", "nvidia.com/gpu: 0"),
        POD.replace("nvidia.com/gpu: 2", "nvidia.com/gpu: many"),
        POD.replace("nvidia.com/gpu: 2", "hugepages-2Mi: 2"),
        "kind: Pod\napiVersion: v1\nmetadata: {}\nspec: {containers: 3}\n",
        "a: 1\n",
    ],
)
def test_who_asks_for_no_device_is_left_alone(text: str) -> None:
    assert converted(text) == ConvertedFile("text", text)


def test_a_pod_behind_an_anchor_is_refused_with_the_reason() -> None:
    text = POD.replace("resources:", "resources: &r").replace(
        "  restartPolicy", "  - name: b\n    resources: *r\n  restartPolicy"
    )
    with pytest.raises(InvalidInput, match="shared by an anchor"):
        converted(text)


@pytest.mark.parametrize(
    ("resource", "name", "expression"),
    [
        ("habana.ai/gaudi", "gaudi.intel.com", 'device.driver == "gaudi.intel.com"'),
        ("google.com/tpu", "tpu.google.com", 'device.driver == "tpu.google.com"'),
        ("amd.com/gpu", "gpu.amd.com", "device.driver == 'gpu.amd.com'"),
        (
            "nvidia.com/mig-1g.10gb",
            "mig.nvidia.com",
            "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'",
        ),
    ],
)
def test_classes_are_those_of_the_vendors_drivers(resource: str, name: str, expression: str) -> None:
    file = converted(POD.replace("nvidia.com/gpu", resource))
    _, made, template = yaml.safe_load_all(file.text)
    assert made["metadata"]["name"] == name
    assert made["spec"]["selectors"] == [{"cel": {"expression": expression}}]
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["deviceClassName"] == name
    assert not any("guess" in note for note in file.notes)


@pytest.mark.parametrize(("resource", "profile"), [("mig-1g.10gb", "1g.10gb"), ("mig-1g.10gb.me", "1g.10gb+me")])
def test_a_partition_is_requested_by_its_profile(resource: str, profile: str) -> None:
    *_, template = documents(POD.replace("nvidia.com/gpu", f"nvidia.com/{resource}"))
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["selectors"] == [
        {"cel": {"expression": f"device.attributes['gpu.nvidia.com'].profile == '{profile}'"}}
    ]


def test_a_share_of_a_gpu_becomes_a_gpu_with_a_note() -> None:
    file = converted(POD.replace("nvidia.com/gpu", "nvidia.com/gpu.shared"))
    assert "deviceClassName: gpu.nvidia.com" in file.text
    assert any("pods share one by naming one claim" in note for note in file.notes)


def test_kinds_whose_pods_are_unknown_are_noted_and_unchanged() -> None:
    spec = {"groups": [{"pods": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 8}}}]}}]}
    farm = {"apiVersion": "farm.example.com/v1", "kind": "Farm", "metadata": {"name": "big"}, "spec": spec}
    text = yaml.safe_dump(farm)
    file = converted(text)
    assert file.text == text
    assert file.notes == (
        "Farm/big: requests nvidia.com/gpu and is unchanged: where the kind Farm of farm.example.com/v1 has its pods "
        "is not known",
    )
    assert converted(text, "amd.com/gpu").notes == ()
