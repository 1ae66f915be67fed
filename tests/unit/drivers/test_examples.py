"""The examples are what they claim to be: small, well-formed, and fit for the example driver."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from cathedra.api.scheme import GroupVersionKind, type_of
from cathedra.api.struct import from_dict, to_dict
from cathedra.client import resources
from cathedra.client.transport import ResourceRef
from cathedra.driver import Driver
from tests.running import run_with
from tests.unit.driver.world import World, in_virtual_time, result, running

EXAMPLES = Path(__file__).parents[3] / "examples"
MANIFESTS = sorted(path for path in EXAMPLES.glob("*/*.yaml") if path.parent.name not in {"insight", "driver-ci"})
"""What is applied to a cluster; ``insight`` holds a dump of one and ``driver-ci`` a workflow of GitHub, which tests of
their own read."""
OF_OLDER_RELEASES = {"classic", "structured-1.32"}
"""Folders that `tests.mission` applies, on clusters of their release."""


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_manifests_have_no_field_that_their_kind_does_not_know(path: Path) -> None:
    for document in documents(path):
        if document["kind"] in custom_kinds(path.parent):
            continue
        kind = type_of(GroupVersionKind.parse(document["apiVersion"], document["kind"]))
        assert surplus(document, to_dict(from_dict(kind, document))) == []


def custom_kinds(folder: Path) -> set[str]:
    """The kinds that the example itself defines, whose schema is their own."""
    definitions = (document for path in folder.glob("*.yaml") for document in documents(path))
    return {one["spec"]["names"]["kind"] for one in definitions if one["kind"] == "CustomResourceDefinition"}


def surplus(given: Any, understood: Any, where: str = "") -> list[str]:
    """Paths of ``given`` that are missing from ``understood``."""
    if isinstance(given, dict):
        if not isinstance(understood, dict):
            return [where]
        return [
            found
            for key, value in given.items()
            for found in (
                surplus(value, understood[key], f"{where}.{key}") if key in understood else [f"{where}.{key}"]
            )
        ]
    if isinstance(given, list):
        return [f for g, u in zip(given, understood, strict=True) for f in surplus(g, u, f"{where}[]")]
    return []


@pytest.mark.parametrize(
    "folder",
    sorted({path.parent for path in MANIFESTS if path.parent.name not in OF_OLDER_RELEASES}),
    ids=lambda folder: folder.name,
)
def test_api_server_accepts_every_manifest(folder: Path) -> None:
    manifests = [document for path in sorted(folder.glob("*.yaml")) for document in documents(path)]

    async def test(world: World) -> None:
        for document in manifests:
            kind = type_of(GroupVersionKind.parse(document["apiVersion"], document["kind"]))
            ref = next(r for r in vars(resources).values() if isinstance(r, ResourceRef) and r.type is kind)
            namespace = document["metadata"].get("namespace", "default") if ref.namespaced else ""
            created: Any = await world.client.resource(ref, namespace).create(from_dict(kind, document))
            assert created.metadata.uid

    in_virtual_time(test)


def test_every_folder_is_introduced() -> None:
    folders = {path.parent for path in MANIFESTS} | {EXAMPLES / "drivers"}
    index = (EXAMPLES / "README.md").read_text()
    for folder in folders:
        assert (folder / "README.md").is_file()
        assert f"({folder.name})" in index


def test_containers_use_only_claims_that_their_pod_names() -> None:
    for pod in (spec for path in MANIFESTS for document in documents(path) for spec in pod_specs(document)):
        named = {claim["name"] for claim in pod["resourceClaims"]}
        wanted = (container.get("resources", {}).get("claims", ()) for container in pod["containers"])
        used = {claim["name"] for claims in wanted for claim in claims}
        assert used == named


def pod_specs(document: dict[str, Any]) -> list[dict[str, Any]]:
    if document["kind"] == "Pod":
        return [document["spec"]]
    return [document["spec"]["template"]["spec"]] if document["kind"] == "Job" else []


@pytest.fixture
def minimal(monkeypatch: pytest.MonkeyPatch) -> Driver:
    path = EXAMPLES / "drivers/minimal.py"
    assert len(path.read_text().splitlines()) < 60
    spec = importlib.util.spec_from_file_location("minimal", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "minimal", module)
    spec.loader.exec_module(module)
    driver: Driver = module.Lamps()
    return driver


@run_with(in_virtual_time)
async def test_minimal_driver_publishes_prepares_and_lets_go(world: World, *, minimal: Driver) -> None:
    async with running(world.runner(minimal)) as runner:
        (found,) = await world.slices()
        assert len(found.spec.devices) == 4
        ref = await world.allocate("c", result("lamp-2"))
        answer = await runner.service.node_prepare_resources([ref])
        assert answer[ref.uid].error == ""
        assert answer[ref.uid].devices[0].cdi_device_ids == (f"lamp.example.com/claim={ref.uid}-lamp-2",)
        assert await runner.service.node_unprepare_resources([ref]) == {ref.uid: ""}
