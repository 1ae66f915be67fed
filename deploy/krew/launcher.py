#!/usr/bin/env python3
"""kubectl-dra of krew: install the wheel beside this file into an environment of its own once, then run it from there.

The dependencies have parts for each version of Python and each processor, so an archive for all of them would be ten
times as large. pip installs those of this machine; its settings (index, proxy, offline folder) apply. This file runs
with any Python 3 and needs nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

OLDEST = (3, 11)
NEWER = ("python3.15", "python3.14", "python3.13", "python3.12", "python3.11")
PROGRAMS = ("kubectl-dra", "kubectl_complete-dra")
"""Names under which this file may be linked: the plugin, and its completion."""


def main() -> None:
    """Replace this process by the installed program."""
    if sys.version_info < OLDEST:
        newer = next(filter(None, map(shutil.which, NEWER)), None)
        if newer is None:
            fail(f"needs Python 3.11 or newer; python3 is {sys.version.split()[0]}")
        os.execv(str(newer), [str(newer), *sys.argv])
    called = Path(sys.argv[0]).name
    program = environment() / "bin" / (called if called in PROGRAMS else PROGRAMS[0])
    os.execv(str(program), [str(program), *sys.argv[1:]])


def environment() -> Path:
    """Return the environment of this version of plugin and Python; make it if it is missing."""
    # krew links the program into its own bin directory; the wheel is beside the file itself.
    here = Path(__file__).resolve().parent
    wheel = next(here.glob("*.whl"), None)
    if wheel is None:
        fail(f"there is no wheel in {here}; install the plugin again")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cathedra" / "kubectl-dra"
    made = cache / f"{wheel.name.split('-')[1]}-python3.{sys.version_info[1]}"
    if (made / ".complete").exists():
        return made
    cache.mkdir(parents=True, exist_ok=True)
    # Two first calls at once, as of kubectl and its completion: the second one waits.
    with (cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made / ".complete").exists():
            install(wheel, made)
    return made


def install(wheel: Path, made: Path) -> None:
    """Make the environment; a partial one, of an installation that failed, is replaced."""
    print(f"kubectl dra: first call: installing it into {made}", file=sys.stderr, flush=True)
    step([sys.executable, "-m", "venv", "--clear", str(made)], "python3-venv may be missing")
    pip = [str(made / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    step([*pip, "--only-binary", ":all:", str(wheel)], "the package index may be out of reach")
    (made / ".complete").touch()


def step(command: list[str], hint: str) -> None:
    """Run a command of the installation; its last line is the reason if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        lines = done.stdout.strip().splitlines() or [f"exit code {done.returncode}"]
        fail(f"cannot install its dependencies ({hint}): {lines[-1]}")


def fail(reason: str) -> NoReturn:
    """End with one line."""
    print(f"kubectl dra: {reason}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
    sys.exit(130)
