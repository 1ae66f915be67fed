"""Exceptions of the SDK."""

from __future__ import annotations

import inspect

from cathedra.driver import errors
from cathedra.driver.errors import DeviceError, DeviceInUse, DriverError, DroppedFieldsError, OptionError, Retry


def test_all_that_the_sdk_raises_is_of_one_family_and_what_a_driver_raises_is_not() -> None:
    raised = [one for _, one in inspect.getmembers(errors, inspect.isclass) if one.__module__ == errors.__name__]
    assert {one.__name__ for one in raised} == set(errors.__all__)
    assert [one for one in raised if not issubclass(one, DriverError)] == [Retry]
    assert issubclass(OptionError, ValueError)
    assert issubclass(DeviceError, TypeError)


def test_a_device_in_use_says_by_which_claim_and_what_will_free_it() -> None:
    error = DeviceInUse("pool", "gpu-0", "default/c")
    assert (error.pool, error.device, error.holder) == ("pool", "gpu-0", "default/c")
    assert str(error) == (
        "device pool/gpu-0 is still prepared for claim default/c; it can be prepared again once that is undone"
    )


def test_dropped_fields_name_the_features_that_may_be_off() -> None:
    error = DroppedFieldsError("pool", 1, ["taints", "counters"])
    assert error.features == ("taints", "counters")
    assert str(error).endswith("probably because these features are disabled: taints, counters")
    assert str(DroppedFieldsError("pool", 0, ())).endswith("disabled: unknown")


def test_a_wrong_value_names_its_device() -> None:
    assert str(DeviceError("gpu-0", "no such form")) == 'device "gpu-0": no such form'
