"""What can be wrong with drivers on this node."""

from __future__ import annotations

__all__ = ["PluginError", "PluginNotRegistered", "RegistrationError"]


class PluginError(Exception):
    """Base of what this package raises, calls to drivers apart (see `PluginCallError`)."""


class PluginNotRegistered(PluginError, LookupError):
    """No instance of the driver is known here."""


class RegistrationError(PluginError):
    """A plugin cannot be registered as it presents itself."""
