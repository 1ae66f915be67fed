"""A child with an API server alone stays small; what it does is told in `test_apiservers`."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
import cathedra.cluster.processes.serverchild
parts = ("cathedra.node.agent", "cathedra.driver", "cathedra.drivers", "cathedra.cluster.parts.inprocessnodes")
print(sorted(name for name in sys.modules if name in parts))
"""


def test_it_loads_neither_nodes_nor_drivers() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
