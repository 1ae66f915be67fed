"""Writes the JSON schemas of what ``kubectl dra -o json`` prints, and of the engine's messages, into docs/schemas.

``--check`` only compares.

python tools/schemas.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from cathedra.engine.schemas import MODELS, question_schema, schema_of

FOLDER: Final = Path(__file__).parent.parent / "docs" / "schemas"


def main() -> int:
    """Write the schemas, or print the names of those that differ."""
    FOLDER.mkdir(exist_ok=True)
    stale = []
    schemas = {kind.__name__.lower(): schema_of(kind) for kind in MODELS} | {"question": question_schema()}
    for name, schema in schemas.items():
        path = FOLDER / f"{name}.json"
        text = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        if not path.exists() or path.read_text() != text:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(text)
    if stale and "--check" in sys.argv:
        print(f"{', '.join(stale)}: not as the code says; run python tools/schemas.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
