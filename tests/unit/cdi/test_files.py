"""CDI documents as files."""

from __future__ import annotations

from pathlib import Path

import pytest

from cathedra.cdi.errors import InvalidSpec
from cathedra.cdi.files import file_name, read_spec, remove_spec, write_spec
from cathedra.cdi.spec import CDIDevice, ContainerEdits, Spec

SPEC = Spec(
    cdi_version="0.6.0", kind="x.com/gpu", devices=(CDIDevice("a", container_edits=ContainerEdits(env=("A=1",))),)
)


def test_a_document_survives_the_disk_and_can_be_removed_twice(tmp_path: Path) -> None:
    path = write_spec(tmp_path / "cdi", file_name("x.com/gpu", "n/1"), SPEC)
    assert path.name == "x.com-gpu_n_1.json"
    assert read_spec(path) == SPEC
    assert [p.name for p in path.parent.iterdir()] == [path.name], "no temporary file is left"
    remove_spec(path.parent, path.stem)
    remove_spec(path.parent, path.stem)
    assert not path.exists()


def test_an_invalid_document_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec):
        write_spec(tmp_path, "bad", Spec(cdi_version="0.6.0", kind="no-vendor", devices=()))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "text"), [("a.json", "{"), ("a.yaml", "a: [")])
def test_what_cannot_be_read_is_named_with_its_path(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidSpec, match=f"failed to read CDI Spec {tmp_path / name}"):
        read_spec(tmp_path / name)
