"""Run a command as on a machine without the optional programs, although they are installed.

    python tools/bare.py [--keep NAME]... COMMAND [WORD...]

The command gets a PATH with links to all other programs. Container runtimes, buildah, etcd, containerd, kubectl,
busybox and wrk are optional: what needs one of them is skipped with a line that names it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

OPTIONAL: Final = frozenset(
    {
        "buildah",
        "busybox",
        "chromium",
        "conmon",
        "containerd",
        "crun",
        "ctr",
        "etcd",
        "etcdctl",
        "kubectl",
        "runc",
        "valgrind",
        "wrk",
    }
)
HIDDEN: Final = "CATHEDRA_HIDDEN_PROGRAMS"
"""Names that the tests do not look for outside of PATH either."""


def link_others(folder: Path, path: str, hidden: Collection[str]) -> None:
    """Fill ``folder`` with links to the programs on ``path`` that are not ``hidden``; the first of a name wins."""
    for place in filter(Path.is_dir, map(Path, path.split(os.pathsep))):
        for program in sorted(place.iterdir()):
            link = folder / program.name
            if program.name.partition(".")[0] not in hidden and not link.is_symlink() and os.access(program, os.X_OK):
                link.symlink_to(program)


def main(words: Sequence[str]) -> int:
    """Run the command that the words name; its exit status."""
    parser = argparse.ArgumentParser(description="Run a command without the optional programs.")
    parser.add_argument("--keep", action="append", default=[], choices=sorted(OPTIONAL), help="do not hide this one")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args(words)
    if not arguments.command:
        parser.error("no command")
    hidden = OPTIONAL - set(arguments.keep)
    with tempfile.TemporaryDirectory(prefix="bare-") as folder:
        link_others(Path(folder), os.environ.get("PATH", os.defpath), hidden)
        environment = {**os.environ, "PATH": folder, HIDDEN: ",".join(sorted(hidden))}
        environment.pop("CATHEDRA_REQUIRE_ALL", None)
        return subprocess.run(arguments.command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
