"""Composition of the parts: a whole cluster in one process, or each part alone.

`config` holds the options of a cluster; `cluster` composes all `parts` in one process and drains its nodes, and
`standalone` runs one part beside an API server elsewhere. `serving` opens the API server of a data directory, and
`apiservers` runs more of them. `data` is the cluster on disk, `identity` its users and their credentials, `process`
starts and stops processes, and `views` are what commands show. `manifests` applies YAML, and `driverfiles` makes the
manifests and files of a driver.
"""

from __future__ import annotations

__all__ = ["InvalidOption"]


class InvalidOption(ValueError):
    """An option cannot be satisfied. The text names it, and valid values."""
