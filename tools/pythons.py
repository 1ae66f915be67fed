"""Install the wheel of dist/ from wheels alone into each Python that is found, and run the demo with it.

python tools/pythons.py [--write] [FOLDER-WITH-PYTHONS …]

``--write`` fills the table in README.md with the results.

Pythons are found on the path, under pyenv, and as ``bin/python3.N`` in the given folders. One line each; the last line
names the versions that are missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
README: Final = ROOT / "README.md"
BEGIN: Final = "<!-- pythons -->\n"
END: Final = "<!-- /pythons -->"
VERSIONS: Final = ("3.11", "3.12", "3.13", "3.14", "3.15")
PLUGIN_TEST: Final = """
import pytest

@pytest.mark.dra_cluster(nodes=1, profile="h100-8")
def test_a_node_publishes_its_devices(dra_cluster):
    assert dra_cluster.list("resourceslices")
"""
"""A test that needs the plugin's fixture; a pytest that does not load the plugin fails with it."""


def found(folders: Iterable[str]) -> dict[str, str]:
    """Return the interpreter of each version that is found."""
    pyenv = sorted(str(path) for path in Path.home().glob(".pyenv/versions/*"))
    path = os.pathsep.join(f"{folder}/bin" for folder in (*folders, *pyenv)) + os.pathsep + os.environ["PATH"]
    interpreters = {version: shutil.which(f"python{version}", path=path) for version in VERSIONS}
    return {version: name for version, name in interpreters.items() if name and _runs(name)}


def _runs(interpreter: str) -> bool:
    # pyenv has a launcher for versions that are not selected; it only prints an error
    return subprocess.run([interpreter, "-c", ""], capture_output=True, check=False).returncode == 0


def problem_of(interpreter: str, wheel: Path) -> str:
    """Return why the wheel does not install and work in an empty environment; empty if it does."""
    with tempfile.TemporaryDirectory() as folder:
        python = f"{folder}/bin/python"
        steps: Sequence[Sequence[str]] = (
            [interpreter, "-m", "venv", "--without-pip", folder],
            [*_installer(python), "--only-binary", ":all:", str(wheel), "pytest"],
            [f"{folder}/bin/cathedra", "--version"],
            [f"{folder}/bin/cathedra", "demo"],
            [python, "-m", "pytest", "-q", "test_devices.py"],
        )
        Path(folder, "test_devices.py").write_text(PLUGIN_TEST)
        for step in steps:
            done = subprocess.run(step, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
            if done.returncode:
                last = (done.stderr or done.stdout).strip().splitlines()[-1:]
                return f"{' '.join(step)}: {' '.join(last)}"
    return ""


def _installer(python: str) -> list[str]:
    # Its own pip would need ensurepip, which Debian packs apart; a pip of another Python may be too old for the newest.
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv:
        return [uv, "pip", "install", "--quiet", "--python", python]
    return [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]


def write(problems: Mapping[str, str]) -> None:
    """Fill the table of README.md."""
    rows = ["| Python | from wheels alone | `cathedra demo` | pytest plugin |", "|---|---|---|---|"]
    for version in VERSIONS:
        works = "yes" if problems.get(version) == "" else "not tested" if version not in problems else "no"
        rows.append(f"| {version} | {works} | {works} | {works} |")
    before, _, rest = README.read_text().partition(BEGIN)
    README.write_text(before + BEGIN + "\n".join(rows) + "\n" + END + rest.partition(END)[2])


def main(arguments: Sequence[str]) -> int:
    """Print a line for each Python; 1 if one fails."""
    wheels = sorted((ROOT / "dist").glob("*.whl"))
    if not wheels:
        print("dist/ has no wheel: make dist", file=sys.stderr)
        return 2
    interpreters = found(each for each in arguments if each != "--write")
    problems = {}
    for version, name in interpreters.items():
        problems[version] = problem = problem_of(name, wheels[-1])
        print(f"Python {version}: {problem or 'installs from wheels, demo and pytest plugin work'}", flush=True)
    missing = [version for version in VERSIONS if version not in interpreters]
    print(f"missing: {', '.join(missing) or 'none'}")
    if "--write" in arguments:
        write(problems)
    return 1 if any(problems.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
