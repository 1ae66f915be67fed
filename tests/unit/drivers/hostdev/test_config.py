"""The file is read strictly."""

from __future__ import annotations

from pathlib import Path

import pytest

from cathedra.driver import OptionError
from cathedra.drivers.hostdev import HostDevices


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("devices: [{kind: Serial, paths: [/dev/x]}]", "kind 'Serial' must be a word of lower case"),
        ("devices: [{kind: serial, paths: [dev/x]}]", "paths of serial must be absolute"),
        ("devices: [{kind: serial, paths: [/dev/x], permissions: wr}]", "must be letters of rwm in this order"),
        ("devices: [{kind: serial, path: /dev/x}]", "unknown field `path`"),
        ("device: []", "unknown field `device`"),
        ("devices: [", "line"),
    ],
)
def test_what_it_cannot_mean_is_said_with_the_name_of_the_file(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "devices.yaml"
    file.write_text(text)
    with pytest.raises(OptionError) as refused:
        HostDevices(file)
    assert str(refused.value).startswith(f"{file}: ")
    assert problem in str(refused.value)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="No such file or directory"):
        HostDevices(tmp_path / "devices.yaml")
