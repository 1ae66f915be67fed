"""``kubectl dra rights``: the ClusterRole that reading a cluster needs."""

from __future__ import annotations

import argparse
import sys

from cathedra.api.decoding import write_yaml
from cathedra.api.struct import to_dict
from cathedra.insight.reading.state import reader_role


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--name", default="cathedra-insight", help="name of the role (default: cathedra-insight)")


def run(arguments: argparse.Namespace) -> int:
    """Print the ClusterRole as YAML for kubectl."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        **to_dict(reader_role(arguments.name)),
    }
    sys.stdout.write(write_yaml(role, sort_keys=False).decode())
    return 0
