"""Why a pod or a container cannot be set up yet."""

from __future__ import annotations

__all__ = ["ContainerConfigError", "VolumeError"]


class ContainerConfigError(Exception):
    """A container's configuration refers to something that is not there."""


class VolumeError(Exception):
    """A volume cannot be made."""
