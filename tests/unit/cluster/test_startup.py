"""Imports at the start of a cluster: libraries that only some clusters need are imported at their first use."""

from __future__ import annotations

import subprocess
import sys

LATER = (
    "aiohttp",
    "cathedra.cel.program",
    "cathedra.classic",
    "cryptography",
    "grpc",
    "jwt",
    "httptools",
    "websockets",
)


def test_libraries_that_only_some_clusters_need_are_not_loaded_with_the_parts() -> None:
    program = f"import sys\nimport cathedra.cluster.cluster\nprint([name for name in {LATER!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
