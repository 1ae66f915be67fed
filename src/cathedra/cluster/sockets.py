"""Where unix sockets of a cluster lie: in its data directory, or in a short stand-in for it.

The kernel takes at most 107 bytes for a socket's path. A data directory deep in a tree would leave no room for
``plugins_registry/gpu.example.com-reg.sock``, so such a cluster keeps its sockets in a directory of the temporary
folder whose name follows from the data directory's.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Final

__all__ = ["socket_root"]

LONGEST_ROOT: Final = 40
"""Bytes of a root below which every socket of a node fits, also for drivers with long names."""


def socket_root(data_dir: Path) -> Path:
    """The folder below which sockets fit; it need not exist yet."""
    if len(str(data_dir).encode()) <= LONGEST_ROOT:
        return data_dir
    name = hashlib.sha256(str(data_dir).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"cathedra-{name}"
