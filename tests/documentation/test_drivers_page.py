"""The page for driver authors lists the names of the SDK."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from cathedra.devicemetadata.stream import KNOWN_VERSIONS
from cathedra.driver import Device

PAGE = (Path(__file__).parents[2] / "docs" / "drivers.md").read_text(encoding="utf-8")
FIELDS = PAGE.partition("## Fields of a device\n")[2].partition("\n## ")[0]


def test_every_field_of_a_device_is_described() -> None:
    rows = [line.split("|")[1] for line in FIELDS.splitlines() if line.startswith("| `")]
    described = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert described == [field.name for field in dataclasses.fields(Device)]


def test_the_example_of_a_device_is_one() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", FIELDS, re.DOTALL)
    found: dict[str, object] = {}
    exec(code, found)
    assert isinstance(found["device"], Device)
    (taint,) = found["device"].to_api().taints
    assert (taint.key, taint.value, taint.effect) == ("example.com/hot", "95C", "NoSchedule")


def test_the_known_versions_of_metadata_are_named() -> None:
    named = re.findall(r"`(metadata\.resource\.k8s\.io/\w+)`", FIELDS)
    assert tuple(named) == KNOWN_VERSIONS
