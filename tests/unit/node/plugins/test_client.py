"""What a driver looks like from the node agent."""

from __future__ import annotations

from cathedra.node.plugins.client import (
    ClaimReference,
    DeviceCondition,
    PluginCallError,
    PluginDevice,
    PluginError,
    PluginNotRegistered,
    PrepareOutcome,
    RegistrationError,
    ReportedHealth,
)


def test_a_failed_call_reads_like_gos_grpc() -> None:
    """Operators look for these words in the events of pods."""
    error = PluginCallError("Unavailable", "connection refused")
    assert (error.code, error.description) == ("Unavailable", "connection refused")
    assert str(error) == "rpc error: code = Unavailable desc = connection refused"


def test_a_device_that_names_no_request_serves_all_and_is_not_shared() -> None:
    device = PluginDevice("pool", "gpu-0")
    assert (device.request_names, device.cdi_device_ids, device.share_id) == ((), (), None)
    assert PluginDevice("pool", "gpu-0", share_id="") != device, "an empty share ID is one"


def test_an_outcome_is_devices_or_an_error() -> None:
    assert PrepareOutcome().error == ""
    assert PrepareOutcome(error="broken").devices == ()


def test_claims_are_told_apart_by_all_three_parts() -> None:
    claim = ClaimReference("ns", "u", "c")
    assert claim == ("ns", "u", "c")
    assert len({claim, ClaimReference("ns", "u", "c"), ClaimReference("ns", "v", "c")}) == 2


def test_health_has_kubernetes_words_and_the_default_time_unless_it_says_another() -> None:
    assert [health.value for health in DeviceCondition] == ["Unknown", "Healthy", "Unhealthy"]
    assert ReportedHealth("p", "d", DeviceCondition.HEALTHY).timeout <= 0


def test_what_is_wrong_with_a_driver_is_of_one_family_and_a_failed_call_is_not() -> None:
    assert issubclass(PluginNotRegistered, PluginError)
    assert issubclass(RegistrationError, PluginError)
    assert not issubclass(PluginCallError, PluginError)


def test_a_driver_that_is_not_there_is_a_failed_lookup() -> None:
    assert issubclass(PluginNotRegistered, LookupError)
    assert not issubclass(RegistrationError, LookupError)
