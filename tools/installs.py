"""Fill the table of README.md with the ways to install Cathedra, from runs of the tests of each way.

python tools/installs.py

A way is «yes» if its tests pass, «no» if one fails, and «not tested» if one is skipped, because a program is missing.
The table of Pythons is written by tools/pythons.py.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
README: Final = ROOT / "README.md"
BEGIN: Final = "<!-- installs -->\n"
END: Final = "<!-- /installs -->"


class Way(NamedTuple):
    """A way to install, its command, and the tests that run it."""

    name: str
    command: str
    tests: tuple[str, ...]

    @property
    def row(self) -> str:
        """The row of the table up to the result."""
        return f"| {self.name} | `{self.command}` | {', '.join(f'`{test}`' for test in self.tests)} |"


WAYS: Final = (
    Way("without an installation", "uvx cathedra demo", ("test_without_installation",)),
    Way("image, without a registry", "make dist image", ("test_container_image",)),
    Way("kustomize bases", "kubectl apply -k", ("test_base_rights", "test_beside_kubernetes")),
    Way("Helm chart", "helm install cathedra deploy/chart", ("test_chart",)),
    Way("kubectl plugin (krew)", "kubectl krew install dra", ("test_krew",)),
    Way("completion: bash, zsh, fish, kubectl", "cathedra completion bash", ("test_completion",)),
)


def result_of(way: Way) -> str:
    """Run the tests of a way."""
    files = [f"tests/integration/{test}.py" for test in way.tests]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout, file=sys.stderr)
        return "no"
    return "not tested" if re.search(r"\d+ skipped", done.stdout) else "yes"


def main() -> int:
    """Write the table; 1 if a way fails."""
    results = {way: result_of(way) for way in WAYS}
    rows = ["| way | command | tests | works |", "|---|---|---|---|"]
    rows += [f"{way.row} {result} |" for way, result in results.items()]
    before, _, rest = README.read_text().partition(BEGIN)
    README.write_text(before + BEGIN + "\n".join(rows) + "\n" + END + rest.partition(END)[2])
    return 1 if "no" in results.values() else 0


if __name__ == "__main__":
    sys.exit(main())
