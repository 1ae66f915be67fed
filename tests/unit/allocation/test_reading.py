"""Objects in the forms in which callers have them."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cathedra.allocation import Cluster, InvalidInput, allocate, fits
from cathedra.allocation.reading import decoded_object, name_of, plain_objects, typed_object
from cathedra.api.core import core_v1, resource_v1beta1
from cathedra.api.resource import DeviceClass, ResourceClaim
from cathedra.api.struct import from_dict, to_dict
from tests.unit.allocation.manifests import CLAIM, CLUSTER, SELECTOR


def test_files_and_directories_are_read(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    claim = tmp_path / "claims"
    claim.mkdir()
    (claim / "claim.json").write_bytes(msgspec.json.encode(CLAIM))
    (claim / "README.md").write_text("not a manifest")
    assert fits(claim, tmp_path / "cluster.yaml") == ["n1"]
    assert fits(claim / "claim.json", tmp_path / "cluster.yaml") == ["n1"]


def test_objects_of_the_official_client_are_understood() -> None:
    client = pytest.importorskip("kubernetes.client", reason="the official client is a development tool")
    exactly = client.V1ExactDeviceRequest(
        device_class_name="gpu",
        selectors=[client.V1DeviceSelector(cel=client.V1CELDeviceSelector(expression=SELECTOR["cel"]["expression"]))],
    )
    devices = client.V1DeviceClaim(requests=[client.V1DeviceRequest(name="r", exactly=exactly)])
    claim = client.ResourceV1ResourceClaim(
        metadata=client.V1ObjectMeta(name="c"), spec=client.V1ResourceClaimSpec(devices=devices)
    )
    assert fits(claim, CLUSTER) == ["n1"]
    assert fits(client.V1ResourceClaimList(items=[claim, claim]), CLUSTER) == ["n1"]
    entry = client.V1PodResourceClaim(name="e", resource_claim_name="c")
    wanting = client.V1Pod(
        metadata=client.V1ObjectMeta(name="p"), spec=client.V1PodSpec(containers=[], resource_claims=[entry])
    )
    assert fits([claim, wanting], CLUSTER) == ["n1"]


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        ("", "it holds no object"),
        ("cluster.yaml", "pass pathlib.Path"),
        ([{"metadata": {"name": "x"}}], "an object without a kind"),
        (
            {"kind": "ResourceSlice", "apiVersion": "resource.k8s.io/v0", "metadata": {"name": "s"}},
            "is no version of it",
        ),
    ],
)
def test_what_is_no_cluster_is_refused_with_a_reason(cluster: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        Cluster.of(cluster)


def test_a_node_that_is_not_there_is_named() -> None:
    with pytest.raises(InvalidInput, match="node 'n3' is not in the cluster; it has n1, n2"):
        allocate("n3", CLAIM, CLUSTER)


# --- one by one


def names(given: Any) -> list[str]:
    return [name_of(one) for one in plain_objects(given)]


def test_lists_are_taken_apart_and_their_items_know_their_kind() -> None:
    claims = {
        "kind": "ResourceClaimList",
        "apiVersion": "resource.k8s.io/v1beta1",
        "items": [{"metadata": {"name": "a"}}],
    }
    (one,) = plain_objects(claims)
    assert one == {"kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1beta1", "metadata": {"name": "a"}}
    nested = {"kind": "List", "items": [claims, {"kind": "Node", "metadata": {"name": "n"}}]}
    assert names(nested) == ["a", "n"]
    with pytest.raises(InvalidInput, match=r"List.items\[0\]: it is no object, but 7"):
        names({"kind": "List", "items": [7]})


def test_every_document_of_a_text_is_an_object_and_empty_ones_are_skipped() -> None:
    text = "kind: Node\nmetadata: {name: a}\n---\n---\n- {kind: Node, metadata: {name: b}}\n"
    assert names(text) == names(text.encode()) == ["a", "b"]


def test_a_json_text_is_read_as_such_and_yaml_that_begins_alike_as_yaml() -> None:
    assert names(msgspec.json.encode(CLAIM)) == ["default/c"]
    assert names("{kind: Node, metadata: {name: a}}") == ["a"]


def test_an_archive_is_read_without_unpacking_it(tmp_path: Path) -> None:
    path = tmp_path / "dump.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, body in (
            ("d/a.yaml", "kind: Node\nmetadata: {name: a}\n"),
            ("d/notes.txt", "nothing"),
            ("e.json", ""),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body.encode()))
    assert names(path) == ["a"]
    assert [one.name for one in tmp_path.iterdir()] == ["dump.tar.gz"]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("x.tar", b"no archive", "it is no tar archive"),
        ("y.yaml", b"", "it holds no object"),
        ("y.yaml", b"just a text", "it holds a text, and no Kubernetes object"),
    ],
)
def test_a_file_that_holds_no_object_is_named(tmp_path: Path, name: str, content: bytes, why: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput, match=why) as raised:
        names(tmp_path / name)
    assert str(tmp_path / name) in str(raised.value)


def test_a_directory_or_an_archive_without_manifests_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"the directory holds no \.yaml, \.yml, \.json file"):
        names(tmp_path)
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    with pytest.raises(InvalidInput, match=r"the archive holds no \.yaml, \.yml, \.json file"):
        names(tmp_path / "empty.tar")


# --- typed


def test_every_version_becomes_the_newest() -> None:
    flat = from_dict(resource_v1beta1.DeviceClass, {"metadata": {"name": "c"}, "spec": {"selectors": [SELECTOR]}})
    as_dict = {"kind": "DeviceClass", "apiVersion": "resource.k8s.io/v1beta1", **to_dict(flat)}
    wanted = from_dict(DeviceClass, {"metadata": {"name": "c"}, "spec": {"selectors": [SELECTOR]}})
    assert typed_object(flat, strict=True) == typed_object(as_dict, strict=True) == wanted


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1", "v1alpha3"])
def test_an_object_is_read_in_a_version_that_only_older_releases_serve(version: str) -> None:
    given = {"kind": "DeviceClass", "apiVersion": f"resource.k8s.io/{version}", "metadata": {"name": "c"}, "spec": {}}
    read = decoded_object(given)
    assert read is not None
    assert type(read.object) is DeviceClass


def test_an_object_of_the_newest_version_is_taken_as_it_is() -> None:
    claim = from_dict(ResourceClaim, CLAIM)
    assert typed_object(claim, strict=True) is claim
    assert typed_object({"kind": "Node", "metadata": {"name": "n"}}, strict=True) == from_dict(
        core_v1.Node, {"metadata": {"name": "n"}}
    )


@pytest.mark.parametrize("api_version", ["v1", "apps/v1", "resource.example.com/v1"])
def test_kinds_of_other_groups_are_none_of_allocations(api_version: str) -> None:
    assert typed_object({"kind": "ResourceClaim", "apiVersion": api_version}, strict=True) is None
    assert typed_object({"kind": "Service", "apiVersion": api_version}, strict=True) is None


def test_unknown_fields_are_told_and_only_strict_reading_refuses_them() -> None:
    odd = {**CLAIM, "odd": 1}
    found = decoded_object(odd)
    assert found is not None
    assert found.problems == ('unknown field "odd"',)
    assert typed_object(odd, strict=False) == found.object
    with pytest.raises(InvalidInput, match='ResourceClaim default/c: unknown field "odd"'):
        typed_object(odd, strict=True)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "an object without a kind, with no fields"),
        ({"metadata": {}, "spec": {}}, "an object without a kind, with the fields metadata, spec"),
        ({"kind": "Node", "apiVersion": 1}, "Node without a name: apiVersion must be a string, got 1"),
        ({"kind": "DeviceClass", "apiVersion": "resource.k8s.io/v9"}, "v9 is no version of it; known are v1, v1beta2"),
        ({"kind": "Node", "metadata": {"name": 7}}, "Node 7: "),
    ],
)
def test_what_is_no_object_says_what_is_missing(given: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        typed_object(given, strict=False)


@pytest.mark.parametrize(
    ("metadata", "name"),
    [
        ({"namespace": "n", "name": "a"}, "n/a"),
        ({"generateName": "a-"}, "a-"),
        ({}, "without a name"),
        (None, "without a name"),
    ],
)
def test_an_object_is_named_by_as_much_as_there_is(metadata: Any, name: str) -> None:
    assert name_of({"metadata": metadata}) == name


def test_a_taint_rule_of_1_34_keeps_what_it_chooses_devices_by() -> None:
    taint = {"key": "k", "effect": "NoSchedule"}

    def read(version: str, **selector: Any) -> Any:
        spec = {"deviceSelector": selector, "taint": taint}
        given = {"kind": "DeviceTaintRule", "apiVersion": f"resource.k8s.io/{version}", "metadata": {}, "spec": spec}
        return decoded_object(given)

    old = read("v1alpha3", deviceClassName="gpu", selectors=[SELECTOR])
    assert old.problems == ()
    selector = old.object.spec.device_selector
    assert (selector.device_class_name, len(selector.selectors)) == ("gpu", 1)
    assert read("v1alpha3", driver="d").problems == ()
    assert len(read("v1", deviceClassName="gpu").problems) == 1


def test_an_input_without_an_end_is_refused_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATHEDRA_MAX_INPUT", "64Ki")
    with pytest.raises(InvalidInput, match=r"/dev/zero: it is longer than 64Ki; set .*CATHEDRA_MAX_INPUT=1Gi"):
        list(plain_objects(Path("/dev/zero")))


def test_a_small_archive_of_something_huge_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members count whether they are read or skipped."""
    monkeypatch.setenv("CATHEDRA_MAX_INPUT", "1Mi")
    with tarfile.open(tmp_path / "bomb.tgz", "w:gz") as archive:
        for name in ("notes.bin", "dump.yaml"):
            member = tarfile.TarInfo(name)
            member.size = 600_000
            archive.addfile(member, io.BytesIO(b"#" * member.size))
    with pytest.raises(InvalidInput, match=r"bomb\.tgz: it is longer than 1Mi"):
        list(plain_objects(tmp_path / "bomb.tgz"))


def test_a_limit_that_is_no_size_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATHEDRA_MAX_INPUT", "plenty")
    (tmp_path / "a.yaml").write_text(CLUSTER)
    with pytest.raises(InvalidInput, match="CATHEDRA_MAX_INPUT must be a size, such as 1Gi, got 'plenty'"):
        list(plain_objects(tmp_path / "a.yaml"))
