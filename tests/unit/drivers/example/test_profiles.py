"""The profiles by their names."""

from __future__ import annotations

import pytest

from cathedra.cli.options import DRIVER
from cathedra.cluster.config import PROFILE_FAMILIES
from cathedra.driver.kit import CHECKS, Check, check_driver
from cathedra.drivers.example.driver import ExampleDriver
from cathedra.drivers.example.profiles import PROFILES, DeviceOptions, make_profile


def example(name: str) -> ExampleDriver:
    return ExampleDriver(make_profile(name, DeviceOptions(count=2)))


def test_the_command_knows_the_same_profiles_and_names_drivers_after_them() -> None:
    (option,) = (option for option in DRIVER if option.name == "--driver-profile")
    assert set(option.choices or ()) == set(PROFILES) == set(PROFILE_FAMILIES)
    for name, family in PROFILE_FAMILIES.items():
        assert example(name).name == f"{family}.example.com"


@pytest.mark.parametrize("name", PROFILES)
async def test_the_driver_keeps_the_contract_with_every_profile(name: str) -> None:
    verdicts = await check_driver(lambda: example(name))
    assert [(verdict.check.name, verdict.reason) for verdict in verdicts if verdict.outcome == "failed"] == []
    assert len(verdicts) == len(CHECKS)
    assert isinstance(verdicts[0].check, Check)
