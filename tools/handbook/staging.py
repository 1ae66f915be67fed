"""The sources of the site: a copy of ``docs``, and the pages that are generated from code.

Three things differ between a page in the repository and its copy. Links that leave ``docs`` lead to copies of their
targets. A comment ``<!-- try: … -->`` becomes a link to the page without a server. `CONTRIBUTING.md` and
other documents of the repository's root become pages.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from posixpath import relpath
from urllib.parse import quote

from tools.handbook import commands, errors, evidence, facts, pythonapi

__all__ = ["PLAY", "ROOT", "generated_pages", "stage"]

ROOT = Path(__file__).parents[2]
PLAY = "play/"
"""Folder of the site with the page without a server (`tools.playground`)."""
_ROOT_PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
    "CHANGELOG.md": "changelog.md",
}
_LINK = re.compile(r"(?<=\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")
_TRY = re.compile(r"^<!-- try: (.+) -->$", re.MULTILINE)
_SOURCES = "sources"


def stage(folder: Path) -> None:
    """Write all sources of the site to ``folder``."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder)
    for source, name in _ROOT_PAGES.items():
        (folder / name).write_text((ROOT / source).read_text())
    shutil.copy(Path(__file__).with_name("site.css"), folder)
    shutil.copy(ROOT / "src/cathedra/page/static/icon.svg", folder)
    origins = {folder / name: ROOT / source for source, name in _ROOT_PAGES.items()}
    for page in sorted(folder.rglob("*.md")):
        origin = origins.get(page, ROOT / "docs" / page.relative_to(folder))
        page.write_text(_Copy(page, origin, folder).text())
    for name, text in generated_pages().items():
        target = folder / "reference" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def generated_pages() -> dict[str, str]:
    """Return the text of each page that is generated from code, by its path below ``reference``."""
    return {
        "cathedra.md": commands.cathedra_page(),
        "kubectl-dra.md": commands.kubectl_dra_page(),
        "errors.md": errors.page(),
        "evidence.md": evidence.page(),
        "lint-rules.md": facts.lint_page(),
        "metrics.md": facts.metrics_page(),
        **pythonapi.module_pages(),
    }


class _Copy:
    """A page of the repository on its way into the site."""

    def __init__(self, page: Path, origin: Path, folder: Path) -> None:
        self._page = page
        self._origin = origin
        self._folder = folder

    def text(self) -> str:
        """Return the text of the copy."""
        lines = self._origin.read_text().splitlines(keepends=True)
        is_code = False
        for place, line in enumerate(lines):
            if line.lstrip().startswith("```"):
                is_code = not is_code
            elif not is_code:
                lines[place] = _LINK.sub(self._link, line)
        return _TRY.sub(self._button, "".join(lines))

    def _link(self, found: re.Match[str]) -> str:
        path, fragment = found[1], found[2] or ""
        if re.match(r"\w+:", path):
            return found[0]
        target = (self._origin.parent / path).resolve()
        if not target.exists() or not target.is_relative_to(ROOT):
            return found[0]  # zensical reports it
        if target.is_dir():
            target = next((target / name for name in ("index.md", "README.md") if (target / name).exists()), target)
        return f"{self._relative(self._copied(target))}{fragment}"

    def _copied(self, target: Path) -> Path:
        """Return the place of a file of the repository in the sources of the site; copy it if it is outside of docs."""
        name = target.relative_to(ROOT).as_posix()
        if name in _ROOT_PAGES:
            return self._folder / _ROOT_PAGES[name]
        if target.is_relative_to(ROOT / "docs"):
            return self._folder / target.relative_to(ROOT / "docs")
        # A text, so that browsers show it and no tool renders it.
        copy = self._folder / _SOURCES / f"{name}.txt"
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            listing = "\n".join(sorted(path.name for path in target.iterdir())) + "\n" if target.is_dir() else ""
            copy.write_text(listing or target.read_text())
        return copy

    def _button(self, found: re.Match[str]) -> str:
        # The fragment stays in the browser, so not even the server of the site sees what is tried.
        words = dict(word.split("=", 1) for word in re.findall(r"\w+=(?:'[^']*'|\S+)", found[1]))
        fragment = "&".join(f"{name}={quote(value.strip(chr(39)), safe='/')}" for name, value in words.items())
        page = self._relative(self._folder / PLAY / "index.html")
        return f'<p class="try"><a href="{page}#{fragment}">Try it in this page, without a server</a></p>'

    def _relative(self, target: Path) -> str:
        return relpath(target.as_posix(), self._page.parent.as_posix())
