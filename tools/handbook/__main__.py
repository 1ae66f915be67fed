"""Build the documentation as a site in ``site/``, beside the page without a server, and check its links."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.handbook.building import build


def main() -> int:
    """Build the site. Return 1 if a link is broken."""
    parser = argparse.ArgumentParser(prog="python -m tools.handbook", description=__doc__)
    parser.add_argument(
        "--site", type=Path, default=Path("site"), metavar="DIR", help="folder of the site (default: site)"
    )
    problems = build(parser.parse_args().site)
    print("\n".join(problems), file=sys.stderr if problems else sys.stdout, end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
