"""Fetch the view library of the page from npm into the source tree, with its licence.

python tools/vendor_page.py

The version is named here. Run it after a change of the version; the files are committed, so that neither users nor
builds need npm.
"""

from __future__ import annotations

import re
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Final

PACKAGE: Final = "lit-html"
VERSION: Final = "3.3.3"
FOLDER: Final = Path(__file__).parent.parent / "src" / "cathedra" / "page" / "static" / "vendor"


def main() -> None:
    """Write the library and its licence."""
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(
            ["npm", "pack", "--silent", f"{PACKAGE}@{VERSION}"], cwd=folder, check=True, capture_output=True, text=True
        )
        with tarfile.open(Path(folder, packed.stdout.strip())) as archive:
            library, licence = (_read(archive, f"package/{name}") for name in (f"{PACKAGE}.js", "LICENSE"))
    FOLDER.mkdir(exist_ok=True)
    # The map of sources is not shipped; a browser's tools would look for it in vain.
    (FOLDER / f"{PACKAGE}.js").write_text(re.sub(r"\n//# sourceMappingURL=\S+", "", library))
    (FOLDER / f"{PACKAGE}.LICENSE.txt").write_text(licence)


def _read(archive: tarfile.TarFile, name: str) -> str:
    file = archive.extractfile(name)
    assert file is not None, f"{name} is missing"
    return file.read().decode()


if __name__ == "__main__":
    main()
