"""Every verb of the real kubectl against an API server without nodes: what it prints, and what is there afterwards."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.conftest import Kubectl, RunningCluster

DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "example.com/web:1"}]},
        },
    },
}
MAP: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}}
CLASS: dict[str, Any] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu.example.com"},
    "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
}
CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gpuconfigs.d.example.com"},
    "spec": {
        "group": "d.example.com",
        "scope": "Namespaced",
        "names": {"plural": "gpuconfigs", "kind": "GpuConfig", "shortNames": ["gc"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "description": "GpuConfig says how a GPU is set up.",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "mode": {"type": "string", "description": "How it shares."},
                                    "replicas": {"type": "integer", "default": 1},
                                },
                            }
                        },
                    }
                },
                "subresources": {
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
                },
                "additionalPrinterColumns": [{"name": "Mode", "type": "string", "jsonPath": ".spec.mode"}],
            }
        ],
    },
}


@pytest.fixture(scope="module")
def kubectl(start_cluster: Callable[..., RunningCluster]) -> Kubectl:
    """kubectl on a cluster without nodes."""
    return Kubectl(start_cluster("--nodes=0"))


@pytest.fixture
def namespace(kubectl: Kubectl, request: pytest.FixtureRequest) -> str:
    """A namespace of the test's own."""
    name = request.node.name.removeprefix("test_").replace("_", "-")[:50].rstrip("-")
    kubectl("create", "namespace", name)
    return name


def get(kubectl: Kubectl, *words: str) -> Any:
    """``kubectl get … -o json``."""
    return json.loads(kubectl("get", *words, "-o", "json"))


def text(obj: Any) -> str:
    """A manifest."""
    return json.dumps(obj)


def test_apply_creates_leaves_and_changes(kubectl: Kubectl, namespace: str) -> None:
    words = ("apply", "-n", namespace, "-f", "-")
    assert kubectl(*words, stdin=text(DEPLOYMENT)) == "deployment.apps/web created\n"
    assert kubectl(*words, stdin=text(DEPLOYMENT)) == "deployment.apps/web unchanged\n"
    changed = json.loads(text(DEPLOYMENT))
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "example.com/web:2"
    assert kubectl(*words, stdin=text(changed)) == "deployment.apps/web configured\n"
    found = get(kubectl, "-n", namespace, "deployment", "web")
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "example.com/web:2"


def test_apply_removes_what_is_no_longer_said(kubectl: Kubectl, namespace: str) -> None:
    words = ("apply", "-n", namespace, "-f", "-")
    kubectl(*words, stdin=text(MAP | {"data": {"a": "1", "b": "2"}}))
    kubectl(*words, stdin=text(MAP | {"data": {"a": "3"}}))
    assert get(kubectl, "-n", namespace, "configmap", "m")["data"] == {"a": "3"}


def test_apply_patches_device_classes(kubectl: Kubectl) -> None:
    """An older kubectl sends merge patches for this group, a newer one strategic ones."""
    kubectl("apply", "-f", "-", stdin=text(CLASS))
    changed = json.loads(text(CLASS))
    changed["spec"]["extendedResourceName"] = "example.com/gpu"
    assert "configured" in kubectl("apply", "-f", "-", stdin=text(changed))
    assert get(kubectl, "deviceclass", "gpu.example.com")["spec"]["extendedResourceName"] == "example.com/gpu"
    kubectl("delete", "deviceclass", "gpu.example.com")


def test_server_side_apply_names_who_owns_what(kubectl: Kubectl, namespace: str) -> None:
    words = ("apply", "-n", namespace, "--server-side", "-f", "-")
    assert kubectl(*words, stdin=text(MAP)) == "configmap/m serverside-applied\n"
    other = kubectl.run(*words, "--field-manager=other", stdin=text(MAP | {"data": {"a": "2"}}))
    assert other.returncode == 1
    assert 'conflict with "kubectl": .data.a' in other.stderr
    kubectl(*words, "--field-manager=other", "--force-conflicts", stdin=text(MAP | {"data": {"a": "2"}}))
    assert get(kubectl, "-n", namespace, "configmap", "m")["data"] == {"a": "2"}


def test_an_object_moves_from_client_side_to_server_side_apply(kubectl: Kubectl, namespace: str) -> None:
    kubectl("apply", "-n", namespace, "-f", "-", stdin=text(MAP))
    kubectl("apply", "-n", namespace, "--server-side", "-f", "-", stdin=text(MAP))
    managers = get(kubectl, "-n", namespace, "configmap", "m", "--show-managed-fields")["metadata"]["managedFields"]
    assert "kubectl" in {entry["manager"] for entry in managers if entry["operation"] == "Apply"}


def test_diff_shows_and_changes_nothing(kubectl: Kubectl, namespace: str) -> None:
    kubectl("apply", "-n", namespace, "-f", "-", stdin=text(MAP))
    assert kubectl.run("diff", "-n", namespace, "-f", "-", stdin=text(MAP)).returncode == 0
    for words in ((), ("--server-side", "--force-conflicts")):
        done = kubectl.run("diff", "-n", namespace, *words, "-f", "-", stdin=text(MAP | {"data": {"a": "9"}}))
        assert done.returncode == 1, done.stderr
        assert '+  a: "9"' in done.stdout
    assert get(kubectl, "-n", namespace, "configmap", "m")["data"] == {"a": "1"}


def test_edit_sends_what_the_editor_leaves(kubectl: Kubectl, namespace: str, tmp_path: Path) -> None:
    kubectl("create", "-n", namespace, "-f", "-", stdin=text(MAP))
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i \'s/a: "1"/a: "edited"/\' "$1"\n')
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    assert "configmap/m edited" in kubectl.with_variables(KUBE_EDITOR=str(editor))("edit", "-n", namespace, "cm/m")
    assert get(kubectl, "-n", namespace, "configmap", "m")["data"] == {"a": "edited"}


def test_replace_puts_another_object_in_place(kubectl: Kubectl, namespace: str) -> None:
    kubectl("create", "-n", namespace, "-f", "-", stdin=text(MAP))
    before = get(kubectl, "-n", namespace, "configmap", "m")["metadata"]["uid"]
    changed = text(MAP | {"data": {"b": "2"}})
    assert kubectl("replace", "-n", namespace, "-f", "-", stdin=changed) == "configmap/m replaced\n"
    kubectl("replace", "--force", "-n", namespace, "-f", "-", stdin=changed)
    after = get(kubectl, "-n", namespace, "configmap", "m")
    assert after["data"] == {"b": "2"}
    assert after["metadata"]["uid"] != before


def test_labels_and_annotations_come_and_go(kubectl: Kubectl, namespace: str) -> None:
    kubectl("create", "-n", namespace, "-f", "-", stdin=text(MAP))
    for verb, field in (("label", "labels"), ("annotate", "annotations")):
        kubectl(verb, "-n", namespace, "configmap", "m", "a=1", "b=2")
        refused = kubectl.run(verb, "-n", namespace, "configmap", "m", "a=3")
        assert refused.returncode == 1
        kubectl(verb, "-n", namespace, "--overwrite", "configmap", "m", "a=3", "b-")
        assert get(kubectl, "-n", namespace, "configmap", "m")["metadata"][field] == {"a": "3"}


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("strategic", {"data": {"b": "2"}}),
        ("merge", {"data": {"b": "2"}}),
        ("json", [{"op": "add", "path": "/data/b", "value": "2"}]),
    ],
)
def test_patches_of_every_type(kubectl: Kubectl, kind: str, patch: Any) -> None:
    kubectl("apply", "-f", "-", stdin=text(MAP))
    assert "configmap/m patched" in kubectl("patch", "configmap", "m", f"--type={kind}", "-p", json.dumps(patch))
    assert get(kubectl, "configmap", "m")["data"] == {"a": "1", "b": "2"}
    kubectl("delete", "configmap", "m")


def test_wait_ends_when_the_condition_comes_and_when_time_is_over(kubectl: Kubectl, namespace: str) -> None:
    kubectl("create", "-n", namespace, "-f", "-", stdin=text(MAP))
    word = "--for=jsonpath={.data.a}=2"
    late = kubectl.run("wait", "-n", namespace, word, "configmap/m", "--timeout=300ms")
    assert late.returncode == 1
    assert "timed out waiting for the condition on configmaps/m" in late.stderr
    waiting = kubectl.start("wait", "-n", namespace, word, "configmap/m", "--timeout=120s")
    kubectl("patch", "-n", namespace, "configmap", "m", "--type=merge", "-p", '{"data":{"a":"2"}}')
    assert waiting.communicate(timeout=150)[0] == "configmap/m condition met\n"
    going = kubectl.start("wait", "-n", namespace, "--for=delete", "configmap/m", "--timeout=120s")
    kubectl("delete", "-n", namespace, "configmap", "m")
    assert going.wait(timeout=150) == 0


def test_scale_and_the_stories_of_a_rollout(kubectl: Kubectl, namespace: str) -> None:
    scope = ("-n", namespace)
    kubectl("apply", *scope, "-f", "-", stdin=text(DEPLOYMENT))
    kubectl("scale", *scope, "deployment/web", "--replicas=3")
    assert kubectl.run("scale", *scope, "deployment/web", "--current-replicas=9", "--replicas=1").returncode == 1
    assert get(kubectl, *scope, "deployment", "web")["spec"]["replicas"] == 3
    kubectl("wait", *scope, "--for=jsonpath={.status.observedGeneration}=2", "deployment/web", "--timeout=120s")
    assert "deployment.apps/web restarted" in kubectl("rollout", "restart", *scope, "deployment/web")
    kubectl("set", "image", *scope, "deployment/web", "c=example.com/web:2")
    assert "deployment.apps/web paused" in kubectl("rollout", "pause", *scope, "deployment/web")
    assert "deployment.apps/web resumed" in kubectl("rollout", "resume", *scope, "deployment/web")
    kubectl("wait", *scope, "--for=jsonpath={.status.observedGeneration}=6", "deployment/web", "--timeout=120s")
    history = kubectl("rollout", "history", *scope, "deployment/web").split()
    assert {"1", "2", "3"} <= set(history)
    kubectl("rollout", "undo", *scope, "deployment/web", "--to-revision=1")
    container = get(kubectl, *scope, "deployment", "web")["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "example.com/web:1"
    status = kubectl("rollout", "status", *scope, "deployment/web", "--watch=false")
    assert "Waiting for" in status


def test_explain_reads_the_second_version_in_protobuf(kubectl: Kubectl) -> None:
    shown = kubectl("explain", "pods", "--output=plaintext-openapiv2")
    assert "KIND:     Pod" in shown
    assert "spec" in shown
    shown = kubectl("explain", "resourceclaim.spec.devices.requests", "--output=plaintext-openapiv2")
    assert "exactly" in shown
    assert "RESOURCE: requests <[]Object>" in shown


def test_explain_describes_every_field(kubectl: Kubectl) -> None:
    shown = kubectl("explain", "resourceclaim.spec.devices.requests.exactly")
    assert "allocationMode" in shown
    assert "deviceClassName\t<string> -required-" in shown
    tree = kubectl("explain", "--recursive", "resourceclaims")
    for field in ("reservedFor", "firstAvailable", "matchAttribute", "tolerationSeconds"):
        assert field in tree
    mode = kubectl("explain", "resourceclaim.spec.devices.requests.exactly.allocationMode")
    assert "ExactCount takes `count` devices" in mode
    for kind in ("pods.spec.containers", "deployments", "jobs", "resourceslices", "nodes", "leases"):
        assert "<empty>" not in kubectl("explain", kind)


def test_api_resources_and_versions(kubectl: Kubectl) -> None:
    names = kubectl("api-resources", "-o", "name").split()
    assert {"pods", "resourceclaims.resource.k8s.io", "customresourcedefinitions.apiextensions.k8s.io"} <= set(names)
    assert "resource.k8s.io/v1" in kubectl("api-versions").split()
    wide = kubectl("api-resources", "-o", "wide", "--api-group=resource.k8s.io")
    assert "create,delete,deletecollection,get,list,patch,update,watch" in wide


def test_who_am_i_and_what_can_i_do(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert kubectl("auth", "can-i", "get", "/metrics") == "yes\n"
    assert "*.*" in kubectl("auth", "can-i", "--list")
    assert "Username" in kubectl("auth", "whoami")


def test_top_has_nothing_to_show_without_nodes(kubectl: Kubectl) -> None:
    done = kubectl.run("top", "nodes")
    assert (done.returncode, done.stderr.strip()) == (1, "error: metrics not available yet")


def test_apply_with_a_kustomization(kubectl: Kubectl, namespace: str, tmp_path: Path) -> None:
    (tmp_path / "map.yaml").write_text(yaml.safe_dump(MAP))
    (tmp_path / "kustomization.yaml").write_text(
        yaml.safe_dump({"resources": ["map.yaml"], "namespace": namespace, "namePrefix": "my-"})
    )
    assert kubectl("apply", "-k", str(tmp_path)) == "configmap/my-m created\n"
    assert get(kubectl, "-n", namespace, "configmap", "my-m")["data"] == {"a": "1"}


def test_mistakes_are_told_as_kubernetes_tells_them(kubectl: Kubectl) -> None:
    unknown = kubectl.run("create", "-f", "-", stdin=text(MAP | {"nonsense": 1}))
    assert 'strict decoding error: unknown field "nonsense"' in unknown.stderr
    missing = kubectl.run(
        "apply", "-f", "-", stdin=text({"apiVersion": "d.x/v1", "kind": "Foo", "metadata": {"name": "a"}})
    )
    assert 'no matches for kind "Foo" in version "d.x/v1"' in missing.stderr
    assert "ensure CRDs are installed first" in missing.stderr
    assert 'the server doesn\'t have a resource type "nonsense"' in kubectl.run("get", "nonsense").stderr
    assert 'configmaps "nobody" not found' in kubectl.run("get", "configmap", "nobody").stderr
    wrong = kubectl.run("create", "-f", "-", stdin=text(MAP | {"metadata": {"name": "Wrong_Name"}}))
    assert 'The ConfigMap "Wrong_Name" is invalid: metadata.name: Invalid value' in wrong.stderr


def test_generators_send_objects_in_protobuf(kubectl: Kubectl, namespace: str) -> None:
    scope = ("-n", namespace)
    kubectl("create", *scope, "configmap", "c", "--from-literal=k=v")
    kubectl("create", *scope, "secret", "generic", "s", "--from-literal=k=v")
    kubectl("create", *scope, "job", "j", "--image=example.com/i")
    kubectl("create", *scope, "role", "r", "--verb=get", "--resource=pods")
    kubectl("create", *scope, "rolebinding", "b", "--role=r", "--user=u")
    kubectl("create", *scope, "deployment", "d", "--image=example.com/i")
    kubectl("create", *scope, "quota", "q", "--hard=pods=5")
    kubectl("run", *scope, "p", "--image=example.com/i")
    kubectl("expose", *scope, "deployment", "d", "--port=80")
    shown = kubectl("get", *scope, "cm,secret,job,role,rolebinding,deployment,quota,pod,service", "-o", "name").split()
    assert {"configmap/c", "secret/s", "job.batch/j", "pod/p", "service/d"} <= set(shown)


def test_lists_are_chunked_sorted_and_selected(kubectl: Kubectl, namespace: str) -> None:
    many = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            MAP | {"metadata": {"name": f"m{n}", "labels": {"n": str(n % 2)}}, "data": {"n": str(9 - n)}}
            for n in range(7)
        ],
    }
    scope = ("-n", namespace)
    kubectl("create", *scope, "-f", "-", stdin=text(many))
    names = [f"configmap/m{n}" for n in range(7)]
    chunked = kubectl("get", *scope, "cm", "--chunk-size=2", "-o", "name").split()
    assert [name for name in chunked if name in names] == names
    assert kubectl("get", *scope, "cm", "-l", "n=1", "-o", "name").split() == [
        "configmap/m1",
        "configmap/m3",
        "configmap/m5",
    ]
    by_data = kubectl("get", *scope, "cm", "-l", "n", "--sort-by=.data.n", "-o", "name").split()
    assert by_data == list(reversed(names))
    assert kubectl("get", *scope, "cm", "--field-selector=metadata.name=m3", "-o", "name") == "configmap/m3\n"
    kubectl("delete", *scope, "cm", "-l", "n=0")
    assert len(kubectl("get", *scope, "cm", "-l", "n", "-o", "name").split()) == 3


def test_custom_resources_are_like_any_other(kubectl: Kubectl, namespace: str) -> None:
    scope = ("-n", namespace)
    kubectl("apply", "-f", "-", stdin=text(CRD))
    kubectl("wait", "--for=condition=Established", "crd/gpuconfigs.d.example.com", "--timeout=120s")
    custom = {"apiVersion": "d.example.com/v1", "kind": "GpuConfig", "metadata": {"name": "g"}, "spec": {"mode": "mig"}}
    assert "created" in kubectl("apply", *scope, "-f", "-", stdin=text(custom))
    assert "unchanged" in kubectl("apply", *scope, "-f", "-", stdin=text(custom))
    assert "configured" in kubectl("apply", *scope, "-f", "-", stdin=text(custom | {"spec": {"mode": "mps"}}))
    assert kubectl("get", *scope, "gc").split() == ["NAME", "MODE", "g", "mps"]
    assert "How it shares." in kubectl("explain", "gpuconfig.spec.mode")
    kubectl("scale", *scope, "gc/g", "--replicas=4")
    assert get(kubectl, *scope, "gc", "g")["spec"] == {"mode": "mps", "replicas": 4}
    refused = kubectl.run("apply", *scope, "-f", "-", stdin=text(custom | {"spec": {"mode": 5}}))
    assert "spec.mode in body must be of type string" in refused.stderr
    assert "serverside-applied" in kubectl(
        "apply", *scope, "--server-side", "--force-conflicts", "-f", "-", stdin=text(custom)
    )
    kubectl("delete", "crd", "gpuconfigs.d.example.com")
    assert kubectl.run("get", *scope, "gc").returncode == 1
