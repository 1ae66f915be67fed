"""A profile that is written is read as the same one."""

from __future__ import annotations

from pathlib import Path

import pytest

from cathedra.profiles import expanded_pools, load_profile, profile_names, read_profile
from cathedra.profiles.writing import profile_document, profile_yaml


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
