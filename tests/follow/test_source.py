"""Sources of a release's files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tools.follow.source import Checkout, GitTree, NoSource, Staging, open_source, release_of

from tests.follow.checkout import checkout, write


def repository(folder: Path, tag: str, path: str) -> Path:
    """A git repository with one file under a tag."""
    write(folder, path, "text\n")
    name = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for arguments in (("init", "-q"), ("add", "."), (*name, "commit", "-qm", "x"), ("tag", tag)):
        subprocess.run(["git", "-C", str(folder), *arguments], check=True)
    return folder


def test_a_folder_is_read_as_it_is(tmp_path: Path) -> None:
    checkout(tmp_path, a__b="text")
    source = open_source(str(tmp_path), [])
    assert isinstance(source, Checkout)
    assert (source.read("a/b"), source.read("a/c"), source.files("a")) == ("text", None, ["a/b"])


def test_a_tag_is_read_from_a_repository_without_checking_it_out(tmp_path: Path) -> None:
    whole = repository(tmp_path, "v1.38.0-rc.0", "pkg/x.go")
    (whole / "pkg" / "x.go").unlink()
    source = open_source("v1.38.0-rc.0", [whole])
    assert isinstance(source, GitTree)
    assert (source.read("pkg/x.go"), source.files("pkg")) == ("text\n", ["pkg/x.go"])


def test_a_git_directory_without_a_work_tree_is_read_at_its_newest_commit(tmp_path: Path) -> None:
    whole = repository(tmp_path, "v1.38.0-rc.0", "pkg/x.go")
    source = open_source(str(whole / ".git"), [])
    assert isinstance(source, GitTree)
    assert source.files("") == ["pkg/x.go"]


def test_staging_repositories_stand_at_their_place_in_the_whole(tmp_path: Path) -> None:
    api = repository(tmp_path / "api", "v0.38.0", "resource/v1/types.go")
    source = open_source("v1.38.0", [api])
    assert isinstance(source, Staging)
    path = "staging/src/k8s.io/api/resource/v1/types.go"
    assert (source.read(path), source.files("staging/src/k8s.io/api")) == ("text\n", [path])
    assert source.read("pkg/features/kube_features.go") is None


def test_an_unknown_tag_is_refused_with_the_places_that_lack_it(tmp_path: Path) -> None:
    with pytest.raises(NoSource, match=r"no folder v1\.99\.0"):
        open_source("v1.99.0", [repository(tmp_path, "v1.38.0", "a")])


@pytest.mark.parametrize("name", ["v1.38.0-rc.0", "v1.38.2", "/src/kubernetes-1.38"])
def test_the_release_is_in_the_name(tmp_path: Path, name: str) -> None:
    assert release_of(name, Checkout(tmp_path)) == "1.38"


def test_the_release_of_a_checkout_is_that_of_its_newest_change_log(tmp_path: Path) -> None:
    for minor in (9, 36, 37):
        write(tmp_path, f"CHANGELOG/CHANGELOG-1.{minor}.md", "")
    assert release_of("/src/kubernetes", Checkout(tmp_path)) == "1.37"
