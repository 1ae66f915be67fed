"""CDI documents of claims."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cathedra.api.resource import NetworkDeviceData
from cathedra.cdi.spec import InvalidSpec
from cathedra.devicemetadata import (
    KNOWN_VERSIONS,
    MetadataNotFound,
    read_request_directory,
    validate,
)
from cathedra.driver import Claim, DiskFiles, DriverError, Edits, MemoryFiles, OptionError, Prepared, Ref, Version
from cathedra.driver.files import Files
from cathedra.driver.preparing.service import ClaimService
from cathedra.driver.preparing.specs import ClaimSpecs, cdi_document, encode_document, vendor_for
from tests.running import run_with
from tests.unit.driver.world import NODE, Lamps, World, in_virtual_time, result

DIRECTORY = Path("/var/run/cdi")
LAMP = Edits(env={"LAMP": "1"})


class Counting(MemoryFiles):
    """Files that count how often they are written."""

    writes = 0

    def write(self, path: Path, content: bytes) -> None:
        self.writes += 1
        super().write(path, content)


@pytest.fixture
def files() -> Counting:
    return Counting()


@pytest.fixture
def specs(files: Counting) -> ClaimSpecs:
    return ClaimSpecs(files, DIRECTORY, "example.com", "claim")


@pytest.mark.parametrize(
    ("driver", "vendor"), [("gpu.example.com", "gpu.example.com"), ("3d.example.com", "k8s.3d.example.com")]
)
def test_a_vendor_is_the_drivers_name_unless_cdi_allows_no_such_name(driver: str, vendor: str) -> None:
    assert vendor_for(driver) == vendor


def test_a_kind_that_cdi_does_not_allow_is_a_wrong_option(files: Counting) -> None:
    with pytest.raises(OptionError, match=r"CDI kind example\.com/no class: "):
        ClaimSpecs(files, DIRECTORY, "example.com", "no class")


def test_devices_have_qualified_names(specs: ClaimSpecs) -> None:
    assert specs.device_id("d") == "example.com/claim=d"


def test_a_document_has_the_lowest_version_that_can_express_it() -> None:
    plain = cdi_document("example.com/claim", {"d": LAMP})
    newer = cdi_document("example.com/claim", {"d": Edits(env={"LAMP": "1"}, additional_gids=(5,))})
    assert (plain.cdi_version, newer.cdi_version) == ("0.3.0", "0.7.0")
    said = json.loads(encode_document(plain))
    assert said["kind"] == "example.com/claim"
    assert said["devices"] == [{"name": "d", "containerEdits": {"env": ["LAMP=1"]}}]


def test_an_edit_that_breaks_the_format_is_an_error() -> None:
    with pytest.raises(InvalidSpec):
        cdi_document("example.com/claim", {"d": Edits(env={"": "1"})})


def test_devices_that_change_nothing_are_not_in_the_document(specs: ClaimSpecs) -> None:
    document = specs.document({"a": LAMP, "b": Edits()})
    assert document is not None
    assert [device.name for device in document.devices] == ["a"]
    assert specs.document({"b": Edits()}) is None


def test_a_document_is_written_once_and_again_only_if_it_differs(specs: ClaimSpecs, files: Counting) -> None:
    first = cdi_document(specs.kind, {"d": LAMP})
    specs.ensure("uid", first)
    specs.ensure("uid", first)
    assert files.writes == 1
    specs.ensure("uid", cdi_document(specs.kind, {"d": Edits(env={"LAMP": "2"})}))
    assert files.writes == 2
    (name,) = files.names(DIRECTORY)
    assert "uid" in name
    assert json.loads(files.read(DIRECTORY / name) or b"")["devices"][0]["containerEdits"] == {"env": ["LAMP=2"]}
    specs.remove("uid")
    assert list(files.names(DIRECTORY)) == []


def test_what_is_left_of_unknown_claims_goes_and_all_else_stays(specs: ClaimSpecs, files: Counting) -> None:
    assert specs.write_common(LAMP) == "example.com/claim=common"
    for uid in ("known", "gone"):
        specs.ensure(uid, cdi_document(specs.kind, {"d": LAMP}))
    files.write(DIRECTORY / "other-vendor.json", b"{}")
    specs.remove_leftovers(["known"])
    names = " ".join(files.names(DIRECTORY))
    assert "gone" not in names
    assert all(kept in names for kept in ("known", "common", "other-vendor"))


NEWEST, OLDEST = KNOWN_VERSIONS
BASE = "/var/run/kubernetes.io/dra-device-attributes"


class Telling(Lamps):
    """Lamps that describe themselves to containers."""

    metadata_versions = KNOWN_VERSIONS

    async def prepare(self, claim: Claim) -> list[Prepared]:  # type: ignore[override]
        values = {"bright": True, "watt": 5, "firmware": Version("1.0.0"), "topology.example.com/numa": [0, 1]}
        return [a.prepared(Edits(env={"A": "b"}), metadata=values) for a in claim.allocations]


def service(world: World, directory: Path, files: Files | None = None) -> ClaimService:
    return world.runner(Telling(), files=files or DiskFiles(), directory=directory).service


def mounts(directory: Path) -> dict[str, str]:
    """CDI name → where the container sees the file it mounts."""
    found = {}
    for path in (directory / "cdi").glob("*_metadata_*.json"):
        document = json.loads(path.read_text())
        (device,) = document["devices"]
        (mount,) = device["containerEdits"]["mounts"]
        assert mount["options"] == ["ro", "bind"]
        assert Path(mount["hostPath"]).is_file()
        found[f"{document['kind']}={device['name']}"] = mount["containerPath"]
    return found


def files_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob("*") if path.is_file())


def host_file(directory: Path, claim: str, request: str) -> Path:
    return directory / f"plugins/lamp.example.com/dra-device-metadata/default_{claim}/{request}/metadata.json"


@run_with(in_virtual_time)
async def test_claim_named_by_the_pod_is_mounted_under_its_own_name(world: World, *, tmp_path: Path) -> None:
    ref = await world.allocate("c", "lamp-0")
    answer = await service(world, tmp_path).node_prepare_resources([ref])
    identity = f"lamp.example.com/metadata={ref.uid}_lamp"
    assert answer[ref.uid].devices[0].cdi_device_ids[-1] == identity
    assert mounts(tmp_path) == {identity: f"{BASE}/resourceclaims/c/lamp/lamp.example.com-metadata.json"}


@run_with(in_virtual_time)
async def test_claim_from_a_template_is_mounted_under_the_pods_name_for_it(world: World, *, tmp_path: Path) -> None:
    ref = await world.allocate("c-x7f", "lamp-0", annotations={"resource.kubernetes.io/pod-claim-name": "light"})
    await service(world, tmp_path).node_prepare_resources([ref])
    (target,) = mounts(tmp_path).values()
    assert target == f"{BASE}/resourceclaimtemplates/light/lamp/lamp.example.com-metadata.json"
    assert json.loads(_first(host_file(tmp_path, "c-x7f", "lamp")))["podClaimName"] == "light"


@run_with(in_virtual_time)
async def test_reader_gets_back_what_the_driver_said(world: World, *, tmp_path: Path) -> None:
    ref = await world.allocate("c", "lamp-0", "lamp-1")
    await service(world, tmp_path).node_prepare_resources([ref])
    (tmp_path / "seen").mkdir()
    host = host_file(tmp_path, "c", "lamp")
    (tmp_path / "seen/lamp.example.com-metadata.json").write_bytes(host.read_bytes())
    metadata = read_request_directory(tmp_path / "seen")
    assert validate(metadata) == ()
    assert (metadata.claim.name, metadata.claim.uid, metadata.claim.generation) == ("c", ref.uid, 1)
    (request,) = metadata.requests
    assert [(d.driver, d.pool, d.name) for d in request.devices] == [
        ("lamp.example.com", NODE, "lamp-0"),
        ("lamp.example.com", NODE, "lamp-1"),
    ]
    assert request.devices[0].attributes == {
        "lamp.example.com/bright": True,
        "lamp.example.com/watt": 5,
        "lamp.example.com/firmware": "1.0.0",
        "topology.example.com/numa": (0, 1),
    }
    assert request.devices[0].kinds["lamp.example.com/firmware"] == "version"
    assert host.stat().st_mode & 0o777 == 0o644


@run_with(in_virtual_time)
async def test_file_holds_all_versions_in_the_order_asked_for(world: World, *, tmp_path: Path) -> None:
    ref = await world.allocate("c", "lamp-0")
    await service(world, tmp_path).node_prepare_resources([ref])
    text = host_file(tmp_path, "c", "lamp").read_text()
    first, end = json.JSONDecoder().raw_decode(text)
    second = json.loads(text[end:])
    assert (first.pop("apiVersion"), second.pop("apiVersion")) == (NEWEST, OLDEST)
    assert first == second


@run_with(in_virtual_time)
async def test_each_request_has_its_file_and_its_mount_on_its_first_device(world: World, *, tmp_path: Path) -> None:
    ref = await world.allocate("c", result("lamp-0", "a/sub"), result("lamp-1", "a/sub"), result("lamp-2", "b"))
    answer = await service(world, tmp_path).node_prepare_resources([ref])
    last = [device.cdi_device_ids[-1].partition("=")[2] for device in answer[ref.uid].devices]
    assert last == [f"{ref.uid}_a", f"{ref.uid}-lamp-1", f"{ref.uid}_b"]
    assert json.loads(_first(host_file(tmp_path, "c", "a")))["requests"][0]["name"] == "a/sub"


@run_with(in_virtual_time)
async def test_unprepare_removes_all_files(world: World, *, tmp_path: Path) -> None:
    ref = await world.allocate("c", "lamp-0")
    plugin = service(world, tmp_path)
    await plugin.node_prepare_resources([ref])
    await plugin.node_unprepare_resources([ref])
    assert files_in(tmp_path) == ["checkpoint.boot", "checkpoint.json"]


@run_with(in_virtual_time)
async def test_replay_restores_lost_metadata_files(world: World, *, tmp_path: Path) -> None:
    ref = await world.allocate("c", "lamp-0")
    first = await service(world, tmp_path).node_prepare_resources([ref])
    before = host_file(tmp_path, "c", "lamp").read_bytes()
    DiskFiles().remove_tree(tmp_path / "cdi")
    DiskFiles().remove_tree(tmp_path / "plugins/lamp.example.com/dra-device-metadata")
    again = service(world, tmp_path)
    again.open()
    assert await again.node_prepare_resources([ref]) == first
    assert host_file(tmp_path, "c", "lamp").read_bytes() == before
    assert len(mounts(tmp_path)) == 1


@run_with(in_virtual_time)
async def test_update_counts_the_generation_and_keeps_the_rest(world: World, *, tmp_path: Path) -> None:
    ref = await world.allocate("c", "lamp-0", annotations={"resource.kubernetes.io/pod-claim-name": "light"})
    plugin = service(world, tmp_path)
    await plugin.node_prepare_resources([ref])
    network = NetworkDeviceData(interface_name="eth1", ips=("10.0.0.1/8",))
    await plugin.update_metadata(ref, "lamp", [Prepared("lamp-0", NODE, network_data=network)])
    updated = json.loads(_first(host_file(tmp_path, "c", "lamp")))
    assert (updated["metadata"]["generation"], updated["podClaimName"]) == (2, "light")
    assert updated["requests"][0]["devices"][0]["networkData"] == {"interfaceName": "eth1", "ips": ["10.0.0.1/8"]}
    with pytest.raises(DriverError, match='request "other" not found in prepared claim default/c'):
        await plugin.update_metadata(ref, "other", [])


@run_with(in_virtual_time)
async def test_versions_must_be_known_and_contain_the_newest(world: World) -> None:
    class Old(Lamps):
        metadata_versions = (OLDEST,)

    class Unknown(Lamps):
        metadata_versions = ("metadata.resource.k8s.io/v9",)

    with pytest.raises(OptionError, match=f"the newest, {NEWEST}, is missing"):
        world.runner(Old())
    with pytest.raises(OptionError, match="none of the requested metadata API versions"):
        world.runner(Unknown())


@run_with(in_virtual_time)
async def test_driver_without_metadata_writes_no_file(world: World, *, tmp_path: Path) -> None:
    ref = await world.allocate("c", "lamp-0")
    plugin = world.runner(Lamps(), files=DiskFiles(), directory=tmp_path).service
    await plugin.node_prepare_resources([ref])
    assert mounts(tmp_path) == {}
    with pytest.raises(DriverError, match="device metadata is not enabled"):
        await plugin.update_metadata(Ref("default", "c", ref.uid), "lamp", [])
    with pytest.raises(MetadataNotFound):
        read_request_directory(tmp_path / "plugins/lamp.example.com/dra-device-metadata/default_c/lamp")


def _first(path: Path) -> str:
    text = path.read_text()
    return text[: json.JSONDecoder().raw_decode(text)[1]]
