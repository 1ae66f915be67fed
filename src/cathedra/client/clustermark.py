"""The extension that Cathedra adds to a cluster in a kubeconfig, for facts that kubeconfigs have no field for.

kubectl and client-go keep extensions that they do not know. The extension marks the cluster as entered by Cathedra, and
holds its data directory, the context that was current before, and further servers of the same cluster.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

NAME: Final = "cathedra.dev/cluster"
"""Name of the extension."""
SERVERS: Final = "servers"
"""The field with further servers."""
_URL: Final = re.compile(r"https?://[^/\s]+")


def mark(*, data_dir: str, former_context: str, servers: Sequence[str]) -> dict[str, Any]:
    """Return the extension; empty values are left out."""
    kept = {"dataDir": data_dir, "previousContext": former_context, SERVERS: list(servers)}
    present = {name: value for name, value in kept.items() if value}
    return {"name": NAME, "extension": {"provider": "cathedra", **present}}


def is_marked(cluster: Mapping[str, Any]) -> bool:
    """Return True if the cluster has the extension."""
    return any(extension.get("name") == NAME for extension in cluster.get("extensions") or ())


def data_dir_of(cluster: Mapping[str, Any]) -> str:
    """Return the data directory of the cluster; "" if none is recorded."""
    return str(_extension(cluster).get("dataDir", ""))


def former_context_of(cluster: Mapping[str, Any]) -> str:
    """Return the context that was current before this cluster's; "" if there was none."""
    return str(_extension(cluster).get("previousContext", ""))


def further_servers_of(cluster: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the URLs of further servers.

    Raises:
        ValueError: one of them is no URL.
    """
    listed = _extension(cluster).get(SERVERS) or ()
    if not isinstance(listed, list | tuple) or not all(isinstance(url, str) and _URL.match(url) for url in listed):
        raise ValueError(f"extension {NAME!r}: {SERVERS} must be a list of URLs such as https://10.0.0.1:6443")
    return tuple(url.rstrip("/") for url in listed)


def _extension(cluster: Mapping[str, Any]) -> Mapping[str, Any]:
    for extension in cluster.get("extensions") or ():
        if extension.get("name") == NAME:
            found = extension.get("extension")
            return found if isinstance(found, dict) else {}
    return {}
