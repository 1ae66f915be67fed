"""Commands are kubectl's own, and their patches are those of the objects that the server has."""

from __future__ import annotations

import json
import shlex

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import DeviceClass, ResourceClaimTemplate
from cathedra.api.struct import from_dict, to_dict
from cathedra.apiserver.patches.json_patch import json_patch
from cathedra.insight.explanation import commands
from cathedra.releases import FeatureGates
from tests.insight.building import device_class, pod, request, template

OLD = from_dict(ResourceClaimTemplate, template("t", request(count=3)))
NEW = from_dict(ResourceClaimTemplate, template("t", request(count=2)))


@pytest.mark.parametrize(
    ("release", "version", "path"),
    [
        ("1.32", "v1beta1", "/spec/spec/devices/requests/0/count"),
        ("1.33", "v1beta2", "/spec/spec/devices/requests/0/exactly/count"),
        ("1.34", "v1", "/spec/spec/devices/requests/0/exactly/count"),
    ],
)
def test_a_template_is_replaced_in_a_version_that_the_release_serves(release: str, version: str, path: str) -> None:
    words = shlex.split(commands.replaced(OLD, NEW, FeatureGates.for_release(release)))
    assert words[:5] == ["kubectl", "-n", "default", "get", f"resourceclaimtemplates.{version}.resource.k8s.io"]
    assert json.loads(words[words.index("-p") + 1]) == [{"op": "replace", "path": path, "value": 2}]


def test_a_patch_makes_the_new_object_of_the_old_one() -> None:
    gates = FeatureGates.for_release()
    old = from_dict(Pod, pod("claim:a", nodeSelector={"example.com/zone": "a~b", "disk": "ssd"}, tolerations=[]))
    tolerations = [{"key": "k", "operator": "Exists"}]
    new = from_dict(Pod, pod("claim:a", "claim:b", nodeSelector={"disk": "hdd"}, tolerations=tolerations))
    words = shlex.split(commands.patched(old, new, gates))
    assert words[:6] == ["kubectl", "-n", "default", "patch", "pod", "p"]
    assert json_patch(to_dict(old), json.loads(words[words.index("-p") + 1])) == to_dict(new)


def test_a_class_is_created_without_what_the_server_fills_in() -> None:
    made = from_dict(DeviceClass, device_class("gpu"))
    words = shlex.split(commands.created(made, FeatureGates.for_release("1.33")))
    assert words[2:] == ["|", "kubectl", "create", "-f", "-"]
    expected = device_class("gpu")
    assert json.loads(words[1]) == {**expected, "apiVersion": "resource.k8s.io/v1beta2"}
