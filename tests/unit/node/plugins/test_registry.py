"""Which instance of a driver serves."""

from __future__ import annotations

import pytest

from cathedra.node.plugins.errors import PluginNotRegistered, RegistrationError
from cathedra.node.plugins.registry import PluginInstance, PluginRegistry, RegistryListener
from tests.unit.node.fakes import FakeDriver


class Told:
    """What a listener was told."""

    def __init__(self, registry: PluginRegistry) -> None:
        self.events: list[str] = []
        registry.listen(
            RegistryListener(
                on_usable=lambda driver: self.events.append(f"{driver} usable"),
                on_unusable=lambda driver: self.events.append(f"{driver} unusable"),
                on_preferred=lambda driver, one: self.events.append(f"{driver} is {one.endpoint if one else 'gone'}"),
            )
        )

    def take(self) -> list[str]:
        taken, self.events = self.events, []
        return taken


def instance(endpoint: str, *, connected: bool = True) -> PluginInstance:
    return PluginInstance("d", endpoint, FakeDriver(), connected=connected)


def test_the_latest_connected_instance_serves_else_the_latest() -> None:
    registry = PluginRegistry()
    old, new = instance("old"), instance("new")
    registry.add(old)
    registry.add(new)
    assert registry.get("d") is new
    registry.set_connected(new, False)
    assert registry.get("d") is old
    registry.set_connected(old, False)
    assert registry.get("d") is new
    assert registry.instances("d") == (old, new)
    assert registry.drivers() == ("d",)


def test_listeners_hear_of_every_turn_of_a_rolling_update() -> None:
    registry = PluginRegistry()
    told = Told(registry)
    old, new = instance("old"), instance("new", connected=False)
    registry.add(old)
    assert told.take() == ["d is old", "d usable"]
    registry.add(new)
    registry.set_connected(new, True)
    registry.set_connected(new, True)
    assert told.take() == ["d is new"]
    assert registry.remove("d", "old") is old
    assert told.take() == []
    registry.remove("d", "new")
    assert told.take() == ["d is gone", "d unusable"]
    assert registry.remove("d", "new") is None


def test_an_endpoint_is_registered_once_and_a_missing_driver_is_named() -> None:
    registry = PluginRegistry()
    registry.add(instance("one"))
    with pytest.raises(RegistrationError, match="endpoint one already registered for DRA driver plugin d"):
        registry.add(instance("one"))
    with pytest.raises(PluginNotRegistered, match="DRA driver other is not registered"):
        registry.get("other")
    with pytest.raises(PluginNotRegistered, match="DRA driver name is empty"):
        registry.get("")
