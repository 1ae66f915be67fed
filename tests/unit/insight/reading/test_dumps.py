"""Dumps: every version, every form in which they come, and what they leave open."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import shutil
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from cathedra.allocation import Cluster, InvalidInput
from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from cathedra.api.scheme import GroupVersionKind
from cathedra.insight.explanation.explain import explain
from cathedra.insight.reading.dumps import definition_of, read_dump
from cathedra.insight.reading.manifests import read_manifests
from cathedra.insight.reading.state import ClusterState
from cathedra.releases import DEFAULT_RELEASE
from tests.goapiserver.writing import go_object, to_json
from tests.insight.building import node

DEVICE: dict[str, dict[str, Any]] = {
    "v1": {"attributes": {"model": {"string": "a100"}}},
    "v1beta2": {"attributes": {"model": {"string": "a100"}}},
    "v1beta1": {"basic": {"attributes": {"model": {"string": "a100"}}}},
}


def slice_of(version: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceSlice",
        "metadata": {"name": "s1"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "n1",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", **DEVICE[version]}],
            **more,
        },
    }


NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_a_slice_of_every_version_keeps_its_attributes(version: str) -> None:
    state = read_dump(slice_of(version))
    (device,) = state.all(ResourceSlice)[0].spec.devices
    assert device.attributes["model"].string == "a100"


def test_the_allocator_reads_with_the_same_reader() -> None:
    (one,) = Cluster.of(slice_of("v1beta1")).inventory.slices()
    assert one.spec.devices[0].attributes["model"].string == "a100"


@pytest.mark.parametrize("version", ["v1alpha3", "v1beta2", "v1"])
def test_a_taint_rule_of_every_version_is_read(version: str) -> None:
    rule = {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "r"},
        "spec": {"deviceSelector": {"driver": "d"}, "taint": {"key": "k", "effect": "NoSchedule"}},
    }
    (read,) = read_dump(rule).all(DeviceTaintRule)
    assert read.spec.taint.key == "k"


def test_unknown_fields_are_named_and_do_not_hinder() -> None:
    state = read_dump([slice_of("v1", brightness=3), NODE])
    (note,) = [note for note in state.notes if note.problem == "unknown fields"]
    assert note.text == 'ResourceSlice s1: unknown field "spec.brightness"; what they mean is not known here'
    assert state.all(ResourceSlice)


def test_kinds_without_an_object_are_not_known_and_the_note_says_what_follows() -> None:
    state = read_dump(NODE)
    assert state.is_known(Node)
    assert not state.is_known(ResourceClaim)
    texts = [note.text for note in state.notes]
    assert texts[0].startswith(
        "objects has nothing of resource.k8s.io: the cluster serves no Dynamic Resource Allocation"
    )


def test_an_empty_list_says_that_there_are_none() -> None:
    assert read_dump({"apiVersion": "v1", "kind": "PodList", "items": []}).is_known(Pod)


def test_without_nodes_those_that_slices_name_are_taken() -> None:
    assert [node.metadata.name for node in read_dump(slice_of("v1")).nodes] == ["n1"]


def test_a_directory_is_read_with_all_below_it(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "node.yaml").write_text(json.dumps(NODE))
    (tmp_path / "slices.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [slice_of("v1")]}))
    (tmp_path / "empty.yml").write_text("---\n")
    (tmp_path / "README.md").write_text("not a manifest: [")
    state = read_dump(tmp_path)
    assert len(state.nodes) == len(state.all(ResourceSlice)) == 1
    assert state.source == str(tmp_path)


def test_an_archive_is_read_without_unpacking_it(tmp_path: Path) -> None:
    body = json.dumps(slice_of("v1beta1")).encode()
    path = tmp_path / "dump.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo("../../slices.json")
        member.size = len(body)
        archive.addfile(member, io.BytesIO(body))
    assert len(read_dump(path).all(ResourceSlice)) == 1
    assert [one.name for one in tmp_path.iterdir()] == ["dump.tar.gz"]


@pytest.mark.parametrize(("suffix", "module"), [(".gz", gzip), (".xz", lzma), (".bz2", bz2)])
def test_a_packed_file_is_read_by_itself_and_in_a_folder_and_refused_if_it_is_damaged(
    tmp_path: Path, suffix: str, module: Any
) -> None:
    packed = module.compress(json.dumps(slice_of("v1")).encode())
    path = tmp_path / f"slices.json{suffix}"
    path.write_bytes(packed)
    assert len(read_dump(path).all(ResourceSlice)) == 1
    assert len(read_dump(tmp_path).all(ResourceSlice)) == 1
    path.write_bytes(packed[:20])
    with pytest.raises(InvalidInput, match="it is a damaged"):
        read_dump(path)


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "---\n".join(json.dumps(one) + "\n" for one in (NODE, slice_of("v1")))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
    state = read_dump(Path("-"))
    assert (len(state.nodes), len(state.all(ResourceSlice)), state.source) == (1, 1, "standard input")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x1f\x8bnot gzip", "it is no tar archive"),
        (b"", "it is no tar archive"),
    ],
)
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "dump.tgz"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=said):
        read_dump(path)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("kind: Node\nmetadata: 3\n", "Node without a name: .*"),
        ("just a text", "is a text, and no Kubernetes object"),
        ("a: 1\n", "an object without a kind"),
        ('{"kind": "ResourceSlice", "apiVersion": "resource.k8s.io/v9"}', "resource.k8s.io/v9 is no version of it"),
        ('{"kind": "Deployment", "apiVersion": "apps/v1beta1"}', "apps/v1beta1 is no version of it"),
        ('{"kind": "Job", "apiVersion": "batch/v1", "spec": 3}', "Job without a name"),
    ],
)
def test_bad_input_is_refused_with_its_place(given: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        read_dump(given)


def test_a_file_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no such file or directory"):
        read_dump(tmp_path / "no.yaml")


def test_a_later_object_replaces_an_earlier_one() -> None:
    state = read_dump([NODE, {**NODE, "metadata": {"name": "n1", "labels": {"a": "b"}}}])
    assert [node.metadata.labels for node in state.nodes] == [{"a": "b"}]


def test_a_dump_may_be_long() -> None:
    """The API server bounds the bodies that it is sent; a file of one's own may have more than 400,000 values."""
    node = "- {kind: Node, apiVersion: v1, metadata: {name: n%d, labels: {a: b, c: d, e: f}}}\n"
    text = "kind: List\napiVersion: v1\nitems:\n" + "".join(node % number for number in range(24_000))
    assert len(read_dump(text).nodes) == 24_000


def test_aliases_in_a_dump_are_bounded() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 8)]
    with pytest.raises(InvalidInput, match="excessive aliasing"):
        read_dump("\n".join(lines))


def test_a_dump_that_go_has_written_is_read_with_its_nulls() -> None:
    """As kubectl prints it: nil lists are null, and an empty list of a kind may be null itself."""
    metadata = {"name": "odd", "namespace": "default"}
    pod = {"metadata": metadata, "spec": {"volumes": [{"name": "v", "projected": {}}], "containers": [{"name": "c"}]}}
    pods = {"kind": "PodList", "apiVersion": "v1", "metadata": None}
    written = [go_object(pod, GroupVersionKind("", "v1", "Pod"))]
    for version in DEVICE:
        claim = go_object({"metadata": metadata}, GroupVersionKind("resource.k8s.io", version, "ResourceClaim"))
        texts = [to_json({**pods, "items": written}), to_json({**pods, "items": None}), to_json(claim)]
        state = read_dump(texts)
        (read,) = state.all(Pod)
        assert read.spec.volumes[0].projected is not None
        assert not read.spec.volumes[0].projected.sources
        (read_claim,) = state.all(ResourceClaim)
        assert not read_claim.spec.devices.requests
        assert {note.problem for note in state.notes} == {"absent", "assumed"}


def node_of(kubelet: str) -> dict[str, Any]:
    status = {"nodeInfo": {"kubeletVersion": kubelet}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": status}


def assumed(state: ClusterState) -> list[str]:
    return [note.text for note in state.notes if note.problem == "assumed"]


def test_the_release_of_a_dump_is_that_of_its_kubelets_and_a_note_names_it() -> None:
    state = read_dump([node_of("v1.33.4"), slice_of("v1beta1")])
    assert state.gates.release == "1.33"
    assert state.gates["DynamicResourceAllocation"]
    assert state.served == {"resource.k8s.io/v1beta1": True}
    assert assumed(state) == [
        "assumed: Kubernetes 1.33 of the kubelets and its default feature gates with DynamicResourceAllocation on "
        "(--kubernetes-version, --feature-gates)"
    ]


def test_a_dump_is_of_the_first_release_with_its_versions_if_its_kubelets_are_older() -> None:
    assert read_dump([node_of("v1.33.4"), slice_of("v1")]).gates.release == "1.34"


def test_a_dump_without_kubelets_is_taken_for_the_newest_release_and_says_so() -> None:
    (text,) = assumed(read_dump([slice_of("v1")]))
    assert text.startswith(f"assumed: Kubernetes {DEFAULT_RELEASE} and its default feature gates")


def test_nothing_is_assumed_if_the_release_is_given() -> None:
    state = read_dump(
        [node_of("v1.33.4"), slice_of("v1beta1")], release="1.36", feature_gates={"DRAListTypeAttributes": True}
    )
    assert state.gates.release == "1.36"
    assert state.gates["DRAListTypeAttributes"]
    assert assumed(state) == []


def test_one_unreadable_file_of_a_folder_or_archive_is_skipped_with_a_note(tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    folder.mkdir()
    (folder / "a.yaml").write_text(yaml.safe_dump(NODE))
    (folder / "b.yaml").write_text("{")
    (folder / "values.yaml").write_text("replicas: 2\n")
    (folder / "text.json").write_text("no manifest")
    packed = shutil.make_archive(str(tmp_path / "packed"), "xztar", folder)
    zipped = shutil.make_archive(str(tmp_path / "zipped"), "zip", folder)
    for path in (folder, Path(packed), Path(zipped)):
        state = read_dump(path)
        assert [node.metadata.name for node in state.nodes] == ["n1"]
        skipped = [note.text for note in state.notes if note.problem == "unreadable"]
        assert [name for name in ("b.yaml", "text.json", "values.yaml") if any(name in text for text in skipped)] == [
            "b.yaml",
            "text.json",
            "values.yaml",
        ]
        assert len(skipped) == 3
        with pytest.raises(InvalidInput, match=r"b\.yaml"):
            read_manifests(path, state)


def test_gzip_files_are_read_alone_and_in_folders(tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    folder.mkdir()
    file = folder / "nodes.yaml.gz"
    file.write_bytes(gzip.compress(yaml.safe_dump(NODE).encode()))
    assert len(read_dump(file).nodes) == len(read_dump(folder).nodes) == 1
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(InvalidInput, match="damaged gzip file"):
        read_dump(file)


def test_a_small_gzip_file_cannot_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATHEDRA_MAX_INPUT", "1Mi")
    file = tmp_path / "dump.json.gz"
    file.write_bytes(gzip.compress(b" " * (2 << 20)))
    with pytest.raises(InvalidInput, match="longer than 1Mi"):
        read_dump(file)


def test_a_pod_of_a_cluster_without_devices_lacks_them_and_no_class() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "default", "uid": "1"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "resourceClaims": [{"name": "g", "resourceClaimTemplateName": "g"}],
        },
    }
    answer = explain(read_dump([NODE, pod]), "pod/train")
    assert [cause.kind for cause in answer.causes] == ["no devices"]
    assert answer.causes[0].text.startswith("objects has nothing of resource.k8s.io")


@pytest.mark.parametrize(
    ("version", "known"), [("v1alpha2", True), ("v1alpha3", True), ("v1beta1", True), ("v9", False)]
)
def test_an_object_of_another_version_ends_no_command(version: str, known: bool) -> None:
    group = {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": "PodGroup",
        "metadata": {"name": "ring", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    state = read_dump([node(), group])
    assert [one.spec.scheduling_policy.gang.min_count for one in state.all(PodGroup) if known] == [2] * known
    assert any(f"scheduling.k8s.io/{version} is no version of it" in one.text for one in state.notes) is not known


def test_a_kind_has_the_versions_of_all_releases_newest_first() -> None:
    definition = definition_of("resource.k8s.io", "ResourceClaim")
    assert definition is not None
    assert [version.name for version in definition.versions] == ["v1", "v1beta2", "v1beta1", "v1alpha3"]
