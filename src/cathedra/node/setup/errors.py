"""Errors of setting up a pod or container. The setup is retried."""

from __future__ import annotations


class ContainerConfigError(Exception):
    """A container's configuration refers to something that does not exist."""


class VolumeError(Exception):
    """A volume cannot be made."""
