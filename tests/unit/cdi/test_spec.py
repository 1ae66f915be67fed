"""Rules of the CDI document (docs/spec/node.md §19.3 to §19.5)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.cdi.spec import (
    CDIDevice,
    ContainerEdits,
    InvalidName,
    InvalidSpec,
    QualifiedName,
    Spec,
    file_name,
    minimum_version,
    read_spec,
    spec_from_plain,
)
from tests.unit.cdi.documents import write_document


def document(version: str = "1.1.0", kind: str = "example.com/gpu", **edits: Any) -> dict[str, Any]:
    device = {"name": "gpu-0", "containerEdits": edits or {"env": ["A=1"]}}
    return {"cdiVersion": version, "kind": kind, "devices": [device]}


@pytest.mark.parametrize(
    ("edits", "minimum"),
    [
        ({"env": ["A=1"]}, "0.3.0"),
        ({"mounts": [{"hostPath": "/a", "containerPath": "/b", "type": "bind"}]}, "0.4.0"),
        ({"deviceNodes": [{"path": "/dev/a", "hostPath": "/dev/b"}]}, "0.5.0"),
        ({"additionalGids": [5]}, "0.7.0"),
        ({"intelRdt": {"closID": "a"}}, "0.7.0"),
        ({"intelRdt": {"closID": "a", "schemata": ["L3:0=f"]}}, "1.1.0"),
        ({"netDevices": [{"hostInterfaceName": "eth0", "name": "net0"}]}, "1.1.0"),
    ],
)
def test_content_decides_the_minimum_version(edits: dict[str, Any], minimum: str) -> None:
    assert minimum_version(spec_from_plain(document(**edits))) == minimum
    assert spec_from_plain(document(version=minimum, **edits)).cdi_version == minimum


def test_annotations_a_dotted_class_and_a_digit_in_front_raise_the_minimum() -> None:
    assert minimum_version(spec_from_plain(document(kind="example.com/gpu.v2"))) == "0.6.0"
    assert minimum_version(spec_from_plain(document() | {"annotations": {"a": "b"}})) == "0.6.0"
    digit = document()
    digit["devices"][0]["name"] = "0-gpu"
    assert minimum_version(spec_from_plain(digit)) == "0.5.0"


def test_a_leading_v_is_tolerated() -> None:
    assert spec_from_plain(document(version="v0.3.0")).kind == "example.com/gpu"


def test_null_means_absent() -> None:
    assert spec_from_plain(document() | {"annotations": None}).annotations == {}


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        (document(version="0.5.1"), "invalid version"),
        (document(version="0.2.0"), "must be at least v0.3.0"),
        (document(version="0.3.0", additionalGids=[1]), "must be at least v0.7.0"),
        (document(kind="gpu"), "invalid kind"),
        (document() | {"devices": []}, "no devices"),
        (document() | {"devices": document()["devices"] * 2}, "multiple device"),
        (document() | {"devices": [{"name": "a", "containerEdits": {}}]}, "empty device edits"),
        (document() | {"surprise": 1}, "unknown field"),
        (document(env=["=x"]), "invalid environment variable"),
        (document(env=["novalue"]), "invalid environment variable"),
        (document(deviceNodes=[{"path": ""}]), "empty. device path"),
        (document(deviceNodes=[{"path": "/dev/a", "type": "x"}]), "invalid type"),
        (document(deviceNodes=[{"path": "/dev/a", "permissions": "rwx"}]), "invalid permissions"),
        (document(hooks=[{"hookName": "later", "path": "/bin/true"}]), "invalid hook name"),
        (document(hooks=[{"hookName": "prestart", "path": ""}]), "empty path"),
        (document(mounts=[{"hostPath": "", "containerPath": "/a"}]), "empty host or container path"),
        (document(intelRdt={"closID": ".."}), "invalid clos id"),
        (document(netDevices=[{"hostInterfaceName": "e", "name": ""}]), "empty interface name"),
        (document(netDevices=[{"hostInterfaceName": "e", "name": n} for n in "ab"]), "used twice"),
    ],
)
def test_a_broken_document_is_refused_with_its_reason(broken: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidSpec, match=text):
        spec_from_plain(broken)


def test_null_is_absent_as_for_go() -> None:
    written = document(env=["A=1"], mounts=None, hooks=None)
    written |= {"annotations": None, "containerEdits": {"env": None, "deviceNodes": None}}
    written["devices"][0]["annotations"] = None
    assert spec_from_plain(written) == spec_from_plain(document())


def test_an_element_that_is_null_has_no_content() -> None:
    written = document()
    written["devices"][0]["annotations"] = {"a.example.com/b": None}
    assert spec_from_plain(written).devices[0].annotations == {"a.example.com/b": ""}
    with pytest.raises(InvalidSpec, match="missing required field `name`"):
        spec_from_plain(document() | {"devices": [None]})


SPEC = Spec(
    cdi_version="0.6.0", kind="x.com/gpu", devices=(CDIDevice("a", container_edits=ContainerEdits(env=("A=1",))),)
)


def test_a_document_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = write_document(tmp_path / "cdi", file_name("x.com/gpu", "n/1"), SPEC)
    assert path.name == "x.com-gpu_n_1.json"
    assert read_spec(path) == SPEC


@pytest.mark.parametrize(("name", "text"), [("a.json", "{"), ("a.yaml", "a: [")])
def test_what_cannot_be_read_is_named_with_its_path(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidSpec, match=f"failed to read CDI Spec {tmp_path / name}"):
        read_spec(tmp_path / name)


LETTER = st.sampled_from("abzABZ")
INNER = st.text("ab01_-.", max_size=5)
KIND_PART = st.builds(lambda a, b, c: a + b + c, LETTER, INNER, st.sampled_from("az09"))


@given(KIND_PART, KIND_PART, st.sampled_from(["0", "gpu-0", "a:b", "6f2d_gpu.x"]))
def test_a_qualified_name_reads_back_as_written(vendor: str, class_: str, name: str) -> None:
    qualified = QualifiedName(vendor, class_, name)
    assert QualifiedName.parse(str(qualified)) == qualified


@pytest.mark.parametrize(
    "text",
    [
        "/dev/null",
        "gpu-0",
        "vendor/class",
        "vendor=dev",
        "/class=dev",
        "1vendor/class=d",
        "v/c=",
        "v-/c=d",
        "v/c=-d",
        "v/c/x=d",
        "vendör/c=d",
        "v/c=d\n",
    ],
)
def test_everything_else_is_unqualified(text: str) -> None:
    with pytest.raises(InvalidName):
        QualifiedName.parse(text)
