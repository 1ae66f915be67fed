"""CDI documents of claims."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cathedra.cdi.errors import InvalidSpec
from cathedra.driver import Edits, MemoryFiles
from cathedra.driver.errors import OptionError
from cathedra.driver.preparing.specs import ClaimSpecs, cdi_document, encode_document, vendor_for

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
