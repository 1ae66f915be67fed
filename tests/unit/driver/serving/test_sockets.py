"""Where a driver listens."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.driver import OptionError
from cathedra.driver.serving.sockets import socket_paths

PLUGINS, REGISTRY = Path("/var/lib/kubelet/plugins"), Path("/var/lib/kubelet/plugins_registry")
UID = "0d6b1f0e-8c3f-4c55-9f0d-0a6a4ba0f7a1"


def test_usual_names() -> None:
    paths = socket_paths("gpu.example.com", PLUGINS / "gpu.example.com", REGISTRY)
    assert str(paths.service) == "/var/lib/kubelet/plugins/gpu.example.com/dra.sock"
    assert str(paths.registration) == "/var/lib/kubelet/plugins_registry/gpu.example.com-reg.sock"


def test_names_during_a_rolling_update_carry_the_pods_uid() -> None:
    paths = socket_paths("gpu.example.com", PLUGINS / "gpu.example.com", REGISTRY, UID)
    assert paths.service.name == f"dra-{UID}.sock"
    assert paths.registration.name == f"gpu.example.com-{UID}-reg.sock"


@given(st.integers(1, 63))
def test_long_names_are_hashed_until_they_fit(length: int) -> None:
    driver = "d" * length
    paths = socket_paths(driver, PLUGINS / driver, REGISTRY, UID)
    assert len(str(paths.service)) < 108
    assert len(str(paths.registration)) < 108
    assert paths == socket_paths(driver, PLUGINS / driver, REGISTRY, UID)


def test_directory_that_is_too_long_is_named() -> None:
    with pytest.raises(OptionError, match="choose a shorter directory"):
        socket_paths("gpu.example.com", Path("/" + "x" * 120), REGISTRY)
