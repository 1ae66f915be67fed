"""Profiles are found by name and read from files; a fault is reported in one line that names the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from cathedra.profiles import ProfileError, expanded_pools, load_profile, profile_names, read_profile
from cathedra.profiles.loading import profile_document, profile_yaml

GOOD = """
apiVersion: cathedra.dev/v1
kind: Profile
metadata: {name: mine}
spec:
  description: mine
  pools:
  - driver: mine.example.com
    groups:
    - count: 2
      devices:
      - name: thing-{n}
"""


def test_a_file_is_read_where_a_name_has_a_slash_or_an_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.yaml").write_text(GOOD)
    (tmp_path / "bare").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    assert load_profile("mine.yaml").name == load_profile("./bare").name == "mine"


def test_a_name_without_a_profile_gets_those_that_there_are() -> None:
    with pytest.raises(ProfileError, match=r"there is no profile 'h101-8'; there are a100-8, .*tpu-v5e-8, or a YAML"):
        load_profile("h101-8")


def test_only_devices_with_parts_have_a_form_in_parts() -> None:
    assert load_profile("h100-8-mig").partitioned
    assert not load_profile("h100-8").partitioned
    with pytest.raises(ProfileError, match="no profile 'mi300x-8-mig'"):
        load_profile("mi300x-8-mig")
    assert "mi300x-8-mig" not in profile_names()


@pytest.mark.parametrize(
    ("found", "replaced", "said"),
    [
        ("kind: Profile", "kind: Pod", "it must begin with apiVersion: cathedra.dev/v1 and kind: Profile"),
        ("metadata: {name: mine}", "metadata: []", "it has no metadata or no spec"),
        ("count: 2", "cuont: 2", "Object contains unknown field `cuont`"),
        ("count: 2", "count: two", "Expected `int`"),
        ("thing-{n}", "thing-{m}", "{m} stands for nothing; known are n, node, serial, uuid"),
        ("name: thing-{n}", "name: a\n        attributes: {x: {int: y}}", "Device a: Expected `int"),
        ("description: mine", "deviceClasses: [1]", "spec.deviceClasses must be a list of DeviceClasses"),
        ("count: 2", "count: 2\n      values: {bus: [a]}", "'bus' has 1 values for 2 repetitions"),
        ("description: mine", "description: [", "yaml"),
    ],
)
def test_what_is_no_profile_is_told_with_the_file(found: str, replaced: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(GOOD.replace(found, replaced))
    with pytest.raises(ProfileError) as caught:
        read_profile(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert said in str(caught.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="No such file or directory"):
        read_profile(tmp_path / "no.yaml")


@pytest.mark.parametrize("name", [name for name in profile_names() if not name.endswith("-mig")])
def test_a_profile_is_read_as_it_was_written(name: str, tmp_path: Path) -> None:
    profile = load_profile(name)
    file = tmp_path / "written.yaml"
    file.write_bytes(profile_yaml(profile))
    read = read_profile(file)
    assert expanded_pools(read, "n1") == expanded_pools(profile, "n1")
    assert (read.device_classes, read.node, read.unconfirmed) == (
        profile.device_classes,
        profile.node,
        profile.unconfirmed,
    )


def test_what_is_empty_is_not_written() -> None:
    spec = profile_document(load_profile("gaudi3-8"))["spec"]
    assert "sources" not in spec
    assert "sharedCounters" not in spec["pools"][0]["groups"][0]
