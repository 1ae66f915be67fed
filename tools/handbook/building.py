"""Rendering of the staged sources with Zensical, and the folder that can be published."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tools.handbook.links import broken_links
from tools.handbook.staging import PLAY, ROOT, stage

__all__ = ["WORK", "build", "publish"]

WORK = ROOT / "build" / "handbook"
"""Folder for the staged sources and the rendered pages."""
_BUILT_ELSEWHERE = (PLAY, "cathedra.html")
_SHIM = "worker-from-disk.js"
_FOREIGN_SHIM = "https://unpkg.com/iframe-worker/shim"


def build(site: Path, work: Path = WORK) -> list[str]:
    """Build the site, and return its broken links. What `make site` has put into the folder stays there."""
    stage(work / "docs")
    rendered = work / "site"
    shutil.rmtree(rendered, ignore_errors=True)
    configuration = work / "mkdocs.yml"
    shutil.copy(ROOT / "mkdocs.yml", configuration)
    zensical = Path(sys.executable).with_name("zensical")
    done = subprocess.run(
        [zensical, "build", "--clean", "--strict", "--config-file", configuration.name],
        cwd=work,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    _use_own_shim(rendered)
    # A link to the page without a server is right whether or not that page has been built.
    problems = broken_links(rendered, _BUILT_ELSEWHERE)
    if not problems:
        publish(rendered, site)
    return problems


def _use_own_shim(rendered: Path) -> None:
    """Replace the script for search from disk, which the theme loads from another host, by ours."""
    shutil.copy(Path(__file__).with_name(_SHIM), rendered / _SHIM)
    for page in rendered.rglob("*.html"):
        depth = len(page.relative_to(rendered).parts) - 1
        page.write_text(page.read_text().replace(_FOREIGN_SHIM, f"{'../' * depth}{_SHIM}"))


def publish(rendered: Path, site: Path) -> None:
    """Replace the documentation in ``site``."""
    site.mkdir(parents=True, exist_ok=True)
    for one in site.iterdir():
        if not any(elsewhere.rstrip("/") == one.name for elsewhere in _BUILT_ELSEWHERE):
            shutil.rmtree(one) if one.is_dir() else one.unlink()
    shutil.copytree(rendered, site, dirs_exist_ok=True)
