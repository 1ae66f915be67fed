"""Reading the metadata files of drivers in a container."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cathedra.devicemetadata import (
    MetadataError,
    MetadataNotFound,
    base_directory,
    read_resource_claim_metadata,
    read_resource_claim_metadata_with_driver_name,
    read_resource_claim_template_metadata,
    read_resource_claim_template_metadata_with_driver_name,
)


def document(driver: str = "gpu.example.com", request: str = "gpu", **changes: Any) -> dict[str, Any]:
    device = {"driver": driver, "pool": "node-a", "name": "gpu-0", "attributes": {f"{driver}/model": {"string": "A"}}}
    return {
        "apiVersion": "metadata.resource.k8s.io/v1alpha1",
        "kind": "DeviceMetadata",
        "metadata": {"name": "c", "namespace": "default", "uid": "u", "generation": 1},
        "requests": [{"name": request, "devices": [device]}],
        **changes,
    }


def write(base: Path, where: str, driver: str, *documents: dict[str, Any]) -> None:
    directory = base / where
    directory.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(d, indent=2) + "\n" for d in documents)
    (directory / f"{driver}-metadata.json").write_text(text)


def test_claim_named_by_the_pod_is_read_from_its_own_name(tmp_path: Path) -> None:
    write(tmp_path, "resourceclaims/c/gpu", "gpu.example.com", document())
    metadata = read_resource_claim_metadata("c", "gpu", base=tmp_path)
    (request,) = metadata.requests
    (device,) = request.devices
    assert (metadata.claim.name, metadata.claim.uid, metadata.claim.generation) == ("c", "u", 1)
    assert (device.driver, device.pool, device.name) == ("gpu.example.com", "node-a", "gpu-0")
    assert device.attributes == {"gpu.example.com/model": "A"}
    assert metadata.pod_claim_name is None


def test_claim_from_a_template_is_read_from_the_name_in_the_pod(tmp_path: Path) -> None:
    write(tmp_path, "resourceclaimtemplates/my-gpu/gpu", "gpu.example.com", document(podClaimName="my-gpu"))
    by_any = read_resource_claim_template_metadata("my-gpu", "gpu", base=tmp_path)
    by_driver = read_resource_claim_template_metadata_with_driver_name(
        "gpu.example.com", "my-gpu", "gpu", base=tmp_path
    )
    assert by_any == by_driver
    assert by_any.pod_claim_name == "my-gpu"


def test_files_of_two_drivers_are_merged_by_request(tmp_path: Path) -> None:
    write(tmp_path, "resourceclaims/c/gpu", "b.example.com", document("b.example.com"))
    write(tmp_path, "resourceclaims/c/gpu", "a.example.com", document("a.example.com"))
    (request,) = read_resource_claim_metadata("c", "gpu", base=tmp_path).requests
    assert [device.driver for device in request.devices] == ["a.example.com", "b.example.com"]


def test_driver_name_selects_one_file(tmp_path: Path) -> None:
    write(tmp_path, "resourceclaims/c/gpu", "a.example.com", document("a.example.com"))
    write(tmp_path, "resourceclaims/c/gpu", "b.example.com", document("b.example.com"))
    metadata = read_resource_claim_metadata_with_driver_name("b.example.com", "c", "gpu", base=tmp_path)
    assert [device.driver for device in metadata.requests[0].devices] == ["b.example.com"]


def test_other_files_in_the_directory_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path, "resourceclaims/c/gpu", "a.example.com", document("a.example.com"))
    (tmp_path / "resourceclaims/c/gpu/.a.tmp").write_text("{")
    assert len(read_resource_claim_metadata("c", "gpu", base=tmp_path).requests) == 1


def test_missing_directory_and_missing_file_say_what_that_means(tmp_path: Path) -> None:
    with pytest.raises(MetadataNotFound, match="does not use that request"):
        read_resource_claim_metadata("c", "gpu", base=tmp_path)
    (tmp_path / "resourceclaims/c/gpu").mkdir(parents=True)
    with pytest.raises(MetadataNotFound, match="no metadata files found"):
        read_resource_claim_metadata("c", "gpu", base=tmp_path)
    with pytest.raises(FileNotFoundError):
        read_resource_claim_metadata_with_driver_name("gpu.example.com", "c", "gpu", base=tmp_path)


def test_error_names_the_file(tmp_path: Path) -> None:
    write(tmp_path, "resourceclaims/c/gpu", "gpu.example.com")
    with pytest.raises(MetadataError, match=r"gpu\.example\.com-metadata\.json: no metadata objects found in stream"):
        read_resource_claim_metadata("c", "gpu", base=tmp_path)


def test_plain_process_finds_its_files_below_the_directory_of_its_mounts() -> None:
    inside = "/var/run/kubernetes.io/dra-device-attributes"
    assert str(base_directory({})) == inside
    assert str(base_directory({"CATHEDRA_MOUNTS": "/tmp/mounts"})) == "/tmp/mounts" + inside


def test_reader_imports_the_standard_library_alone() -> None:
    program = (
        "import sys, cathedra.devicemetadata as m; "
        "print(sorted({n.split('.')[0] for n in sys.modules} - set(sys.stdlib_module_names) - {'__main__'}), "
        "[n for n in sys.modules if n.startswith('cathedra.') and not n.startswith('cathedra.devicemetadata')])"
    )
    source = str(Path(sys.modules["cathedra"].__file__ or "").parents[1])
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], env={"PYTHONPATH": source}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['cathedra'] []"
