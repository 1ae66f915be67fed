"""What can be wrong with drivers."""

from __future__ import annotations

from cathedra.node.plugins.client import PluginCallError
from cathedra.node.plugins.errors import PluginError, PluginNotRegistered, RegistrationError


def test_what_is_wrong_with_a_driver_is_of_one_family_and_a_failed_call_is_not() -> None:
    assert issubclass(PluginNotRegistered, PluginError)
    assert issubclass(RegistrationError, PluginError)
    assert not issubclass(PluginCallError, PluginError)


def test_a_driver_that_is_not_there_is_a_failed_lookup() -> None:
    assert issubclass(PluginNotRegistered, LookupError)
    assert not issubclass(RegistrationError, LookupError)
