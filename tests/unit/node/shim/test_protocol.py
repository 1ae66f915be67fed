"""What goes wrong between agent and shim."""

from __future__ import annotations

from pathlib import Path

from cathedra.node.shim.protocol import IncompatibleShim, ShimLost


def test_a_lost_shim_is_a_lost_connection() -> None:
    assert issubclass(ShimLost, ConnectionError)
    assert not issubclass(IncompatibleShim, ConnectionError), "connecting again would not help"


def test_a_shim_of_another_version_is_named_with_what_to_do() -> None:
    error = IncompatibleShim(Path("/c"), "2", "1", 77)
    assert (error.directory, error.found, error.understood, error.pid) == (Path("/c"), "2", "1", 77)
    assert "speaks protocol 2, and this agent speaks 1; drain the node" in str(error)
    assert "`kill 77`" in str(error)
    assert "`kill PID`" in str(IncompatibleShim(Path("/c"), "2", "1", 0))
