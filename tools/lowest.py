"""The lowest versions that pyproject.toml allows, as constraints for pip: ``NAME==LOWEST``, one a line.

python tools/lowest.py > constraints.txt && pip install -c constraints.txt -e .
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parents[1] / "pyproject.toml"
_REQUIREMENT: Final = re.compile(r"(?P<name>[\w.-]+)>=(?P<lowest>[\w.]+)(?:,[^;]*)?(?P<marker>;.*)?")


def main() -> int:
    """Print the constraints; 1 if a dependency has no lower bound."""
    requirements: list[str] = tomllib.loads(PROJECT.read_text())["project"]["dependencies"]
    for requirement in requirements:
        match = _REQUIREMENT.fullmatch(requirement)
        if match is None:
            print(f"{requirement}: a dependency needs a lower bound, as name>=version", file=sys.stderr)
            return 1
        print(f"{match['name']}=={match['lowest']}{match['marker'] or ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
