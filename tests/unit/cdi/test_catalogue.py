"""Directories, precedence and conflicts (docs/spec/node.md §19.1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from cathedra.cdi.catalogue import load
from cathedra.cdi.spec import CDIDevice, ContainerEdits, Spec, UnresolvableDevices, file_name
from tests.unit.cdi.documents import write_document

KIND = "example.com/gpu"


def spec(*names: str, value: str = "1") -> Spec:
    devices = tuple(CDIDevice(name=n, container_edits=ContainerEdits(env=(f"{n}={value}",))) for n in names)
    common = ContainerEdits(env=(f"FILE={value}",))
    return Spec(cdi_version="0.6.0", kind=KIND, devices=devices, container_edits=common)


def test_written_documents_are_found_and_removed_ones_are_not(tmp_path: Path) -> None:
    name = file_name(KIND, "claim/1")
    assert write_document(tmp_path, name, spec("a")) == tmp_path / "example.com-gpu_claim_1.json"
    assert list(load([tmp_path]).entries) == [f"{KIND}=a"]
    (tmp_path / f"{name}.json").unlink()
    assert not load([tmp_path]).entries


def test_yaml_is_read_and_other_names_are_ignored(tmp_path: Path) -> None:
    text = "cdiVersion: 0.3.0\nkind: v/c\ndevices:\n- name: a\n  containerEdits:\n    env: [A=1]\n"
    (tmp_path / "x.yaml").write_text(text)
    for ignored in ("x.yml", ".x.yaml", "x.txt"):
        (tmp_path / ignored).write_text(text)
    assert list(load([tmp_path, tmp_path / "missing"]).entries) == ["v/c=a"]


def test_a_later_directory_wins(tmp_path: Path) -> None:
    write_document(tmp_path / "low", "x", spec("a", value="low"))
    write_document(tmp_path / "high", "x", spec("a", value="high"))
    catalogue = load([tmp_path / "low", tmp_path / "high"])
    assert "a=high" in catalogue.edits([f"{KIND}=a"]).env
    assert [(entry.name, entry.path.parent.name) for entry in catalogue.shadowed] == [(f"{KIND}=a", "low")]


def test_a_conflict_in_one_directory_disables_the_device_everywhere(tmp_path: Path) -> None:
    write_document(tmp_path / "low", "x", spec("a", "b"))
    write_document(tmp_path / "low", "y", spec("a"))
    write_document(tmp_path / "high", "z", spec("a"))
    catalogue = load([tmp_path / "low", tmp_path / "high"])
    assert list(catalogue.entries) == [f"{KIND}=b"]
    assert {path.name for path in catalogue.faults} == {"x.json", "y.json"}


def test_a_broken_document_costs_only_its_own_devices(tmp_path: Path) -> None:
    write_document(tmp_path, "good", spec("a"))
    (tmp_path / "bad.json").write_text("{")
    catalogue = load([tmp_path])
    assert list(catalogue.entries) == [f"{KIND}=a"]
    assert "bad.json" in catalogue.faults[tmp_path / "bad.json"][0]


def test_all_unresolvable_names_are_reported_together(tmp_path: Path) -> None:
    write_document(tmp_path, "good", spec("a"))
    with pytest.raises(UnresolvableDevices) as caught:
        load([tmp_path]).edits([f"{KIND}=x", f"{KIND}=a", "nonsense"])
    assert str(caught.value) == f"unresolvable CDI devices {KIND}=x, nonsense"


def test_a_documents_own_edits_come_once_before_its_first_device(tmp_path: Path) -> None:
    write_document(tmp_path, "x", spec("a", "b"))
    assert load([tmp_path]).edits([f"{KIND}=b", f"{KIND}=a"]).env == ("FILE=1", "b=1", "a=1")
