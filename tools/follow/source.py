"""Files of a Kubernetes release: from a checkout, from a git repository at a tag, or from its staging repositories.

Nothing is downloaded. A checkout or a clone of kubernetes/kubernetes holds every file. Without one, clones of the
published staging repositories (``api``, ``apiserver``, ``kube-scheduler`` …) hold those below ``staging/src/k8s.io``;
subjects whose files are in none of them are reported as not compared.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

__all__ = ["Checkout", "GitTree", "NoSource", "Source", "Staging", "open_source", "release_of"]

_STAGING = "staging/src/k8s.io/"


class NoSource(Exception):
    """The release cannot be read: there is no such folder or tag."""


class Source(Protocol):
    """Files of one release, by their paths in kubernetes/kubernetes."""

    def read(self, path: str) -> str | None:
        """Return the text of a file, or None if the source lacks it."""

    def files(self, folder: str) -> list[str]:
        """Return the paths of all files below a folder; empty if there is none."""


@dataclass(frozen=True)
class Checkout:
    """A folder with the files of the release."""

    folder: Path

    def read(self, path: str) -> str | None:
        """Return the text of a file, or None if the folder lacks it."""
        file = self.folder / path
        return file.read_text(errors="replace") if file.is_file() else None

    def files(self, folder: str) -> list[str]:
        """Return the paths of all files below a folder."""
        found = (path for path in (self.folder / folder).rglob("*") if path.is_file())
        return sorted(str(path.relative_to(self.folder)) for path in found)


@dataclass(frozen=True)
class GitTree:
    """A git repository, with or without a work tree, at a revision."""

    repository: Path
    revision: str

    def read(self, path: str) -> str | None:
        """Return the text of a file, or None if the revision lacks it."""
        return _git(self.repository, "show", f"{self.revision}:{path}")

    def files(self, folder: str) -> list[str]:
        """Return the paths of all files below a folder."""
        below = [f"{folder.rstrip('/')}/"] if folder else []
        listed = _git(self.repository, "ls-tree", "-r", "--name-only", self.revision, *below)
        return sorted((listed or "").splitlines())


@dataclass(frozen=True)
class Staging:
    """Published staging repositories by name; each is the root of its folder below ``staging/src/k8s.io``."""

    trees: dict[str, GitTree]

    def read(self, path: str) -> str | None:
        """Return the text of a file, or None if its repository is not there."""
        name, _, rest = path.removeprefix(_STAGING).partition("/")
        tree = self.trees.get(name) if path.startswith(_STAGING) else None
        return tree.read(rest) if tree is not None else None

    def files(self, folder: str) -> list[str]:
        """Return the paths of all files below a folder."""
        name, _, rest = folder.removeprefix(_STAGING).partition("/")
        tree = self.trees.get(name) if folder.startswith(_STAGING) else None
        return [f"{_STAGING}{name}/{path}" for path in tree.files(rest)] if tree is not None else []


def open_source(kubernetes: str, repositories: list[Path]) -> Source:
    """Return the source of ``kubernetes``: a folder, or a tag of a repository among ``repositories``.

    A folder is a checkout, or a git directory without a work tree, of which the newest commit is read.

    Staging repositories are recognized by the tag ``v0.38.0`` where the release is ``v1.38.0``.

    Raises:
        NoSource: no folder and no tag of that name.
    """
    folder = Path(kubernetes)
    if folder.is_dir():
        is_git_directory = (folder / "HEAD").is_file() and (folder / "objects").is_dir()
        return GitTree(folder, "HEAD") if is_git_directory else Checkout(folder)
    staging: dict[str, GitTree] = {}
    for repository in repositories:
        if _has(repository, kubernetes):
            return GitTree(repository, kubernetes)
        tag = re.sub(r"^v1\.", "v0.", kubernetes)
        if _has(repository, tag):
            staging[_name_of(repository)] = GitTree(repository, tag)
    if not staging:
        where = ", ".join(map(str, repositories)) or "no repository was named"
        raise NoSource(f"there is no folder {kubernetes}, and no such tag ({where})")
    return Staging(staging)


def release_of(kubernetes: str, source: Source) -> str:
    """Return the release (as ``1.38``) of a tag or checkout.

    Raises: NoSource: neither the name nor the change logs of the checkout have it.
    """
    named = re.search(r"v?1\.(\d+)(\.\d+)?", Path(kubernetes).name)
    if named:
        return f"1.{named[1]}"
    logs = [re.search(r"CHANGELOG-1\.(\d+)\.md$", path) for path in source.files("CHANGELOG")]
    minors = [int(log[1]) for log in logs if log]
    if not minors:
        raise NoSource(f"the release of {kubernetes} is unknown: name it with --release")
    return f"1.{max(minors)}"


def _name_of(repository: Path) -> str:
    folder = repository if repository.name not in ("repo", ".git") else repository.parent
    return folder.name.removesuffix(".git").rpartition("+")[2]


def _has(repository: Path, revision: str) -> bool:
    return _git(repository, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}") is not None


def _git(repository: Path, *arguments: str) -> str | None:
    done = subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True, check=False)
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None
