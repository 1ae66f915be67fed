"""Where a driver listens, on paths that fit into a socket address.

During a rolling update two instances of a driver run side by side, each with sockets named after its pod; long names
are replaced by hashes. The names are those of the Go helper, so that instances of both kinds can follow each other
(docs/spec/driver-sdk.md §2 and §7).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from cathedra.driver.errors import OptionError

__all__ = ["MAX_PATH", "SocketPaths", "socket_paths"]

MAX_PATH = 107
"""Bytes of the longest socket path that Linux takes."""


class SocketPaths(msgspec.Struct, frozen=True):
    """The two sockets of a driver instance."""

    service: Path
    registration: Path


def socket_paths(driver: str, plugin_dir: Path, registry_dir: Path, pod_uid: str = "") -> SocketPaths:
    """The sockets of an instance; ``pod_uid`` names it during rolling updates.

    Raises:
        OptionError: a path is too long for a socket, however it is named.
    """
    if not pod_uid:
        service: tuple[str, ...] = ("dra.sock",)
        registration: tuple[str, ...] = (f"{driver}-reg.sock",)
    else:
        service = (f"dra-{pod_uid}.sock", f"dra-{_hash(pod_uid, 8)}")
        registration = (
            f"{driver}-{pod_uid}-reg.sock",
            f"{driver}-{_hash(pod_uid, 8)}-reg.sock",
            f"dra-{_hash(chr(0).join((driver, pod_uid)), 16)}-reg.sock",
        )
    return SocketPaths(_first_fitting(plugin_dir, service), _first_fitting(registry_dir, registration))


def _first_fitting(directory: Path, names: Iterable[str]) -> Path:
    path = directory
    for name in names:
        path = directory / name
        if len(str(path).encode()) <= MAX_PATH:
            return path
    raise OptionError(
        f"socket path {path} has {len(str(path).encode())} bytes, at most {MAX_PATH} are possible; "
        f"choose a shorter directory than {directory}"
    )


def _hash(text: str, length: int) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()[:length]).decode().rstrip("=")
