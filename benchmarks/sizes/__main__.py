"""``python -m benchmarks.sizes NODES``: measure one size, or with ``--serve`` or ``--agents`` run a part for that."""

from __future__ import annotations

import sys
from pathlib import Path

import uvloop

from benchmarks.sizes.agents import run_agents
from benchmarks.sizes.measuring import measured
from benchmarks.sizes.serving import serve
from cathedra.cluster.parts.gctuning import suspend_collection
from cathedra.cluster.process.signals import switch_soon

match sys.argv[1:]:
    case ["--serve" | "--agents" as part, folder, nodes]:
        suspend_collection()
        switch_soon()
        uvloop.run((serve if part == "--serve" else run_agents)(Path(folder), int(nodes)))
    case [nodes] if nodes.isdecimal():
        for name, figure in measured(int(nodes))._asdict().items():
            print(f"{name:<14} {figure:>12,.3f}")
    case _:
        print("usage: python -m benchmarks.sizes NODES", file=sys.stderr)
        sys.exit(2)
