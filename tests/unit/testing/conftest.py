"""The plugin's fixtures, also where the program is not installed and pytest does not find the plugin by itself."""

from __future__ import annotations

import pytest

from cathedra.testing import plugin
from cathedra.testing.plugin import advance, apply, dra_cluster, kubeconfig, wait_for

__all__ = ["advance", "apply", "dra_cluster", "kubeconfig", "wait_for"]


def pytest_configure(config: pytest.Config) -> None:
    plugin.pytest_configure(config)
