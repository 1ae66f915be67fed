"""The cluster that a command uses, and the contexts and links of clusters outside the state directory."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cathedra.client import kubeconfig
from cathedra.client.kubeconfig import Target
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.data.directories import (
    Description,
    check_name,
    context_name,
    current_cluster,
    directory_of,
    forget_elsewhere,
    known_directories,
    note_elsewhere,
    selected,
    selecting,
    write_description,
)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"CATHEDRA_DATA_DIR": str(tmp_path / "state"), "HOME": str(tmp_path / "home")}


def make(environment: dict[str, str], name: str, data_dir: Path | None = None) -> DataDir:
    """A cluster that has been started, whose context is current in the user's kubeconfig."""
    path = data_dir or directory_of(name, environment)
    path.mkdir(parents=True)
    data = DataDir(path)
    (path / "layout").write_text("1\n")
    write_description(data.description, Description(name))
    note_elsewhere(path, environment)
    target = Target(
        f"https://127.0.0.1:{len(str(path))}",
        name=context_name(name, path, environment),
        certificate_authority=str(path).encode(),
        data_dir=str(path),
    )
    kubeconfig.write(data.kubeconfig, target)
    kubeconfig.merge(target, environment=environment)
    return data


@contextmanager
def running(data: DataDir) -> Iterator[None]:
    """Hold the lock as the process of a cluster does."""
    descriptor = os.open(data.path / "lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, b"1\n")
        yield
    finally:
        os.close(descriptor)


def without_context(environment: dict[str, str]) -> dict[str, str]:
    return {**environment, "KUBECONFIG": f"{environment['HOME']}/none"}


def test_a_name_selects_before_the_current_context(environment: dict[str, str]) -> None:
    a, b = make(environment, "a"), make(environment, "b")
    assert selected("a", environment).path == a.path
    assert selected("", environment).path == b.path


def test_the_current_context_selects_before_the_only_one_that_runs(environment: dict[str, str]) -> None:
    a, b = make(environment, "a"), make(environment, "b")
    with running(a):
        assert selected("", environment).path == b.path
        assert selected("", without_context(environment)).path == a.path


def test_a_kubeconfig_of_the_data_directory_selects_its_cluster(environment: dict[str, str]) -> None:
    a, b = make(environment, "a"), make(environment, "b")
    with running(b):
        assert selected("", {**environment, "KUBECONFIG": str(a.kubeconfig)}).path == a.path


def test_of_several_that_run_without_a_context_none_is_meant(environment: dict[str, str], tmp_path: Path) -> None:
    a, b = make(environment, "a"), make(environment, "cathedra", tmp_path / "own")
    with running(a), running(b), pytest.raises(InvalidOption) as refused:
        selected("", without_context(environment))
    text = f"2 clusters run: a, --data-dir {b.path}; choose one by its name or with --data-dir"
    assert str(refused.value) == text


def test_the_only_stopped_cluster_is_meant_if_none_runs_and_the_default_one_if_there_is_none(
    environment: dict[str, str],
) -> None:
    assert selected("", without_context(environment)).path == directory_of("cathedra", environment)
    a = make(environment, "a")
    assert selected("", without_context(environment)).path == a.path


def test_a_context_of_another_cluster_selects_none(environment: dict[str, str], tmp_path: Path) -> None:
    make(environment, "a")
    foreign = tmp_path / "foreign"
    kubeconfig.write(foreign, Target("https://work.example.com", name="work"))
    assert current_cluster({**environment, "KUBECONFIG": str(foreign)}) is None


def test_a_recorded_directory_with_a_later_cluster_is_not_meant(environment: dict[str, str]) -> None:
    """A kubeconfig of another machine names a directory that exists here by chance."""
    a = make(environment, "a")
    kubeconfig.write(a.kubeconfig, Target("https://127.0.0.1:1", name="a", certificate_authority=b"another"))
    assert current_cluster(environment) is None


def test_clusters_elsewhere_are_listed_until_they_are_gone(environment: dict[str, str], tmp_path: Path) -> None:
    a, b = make(environment, "a"), make(environment, "dev", tmp_path / "own")
    assert [data.path for data in known_directories(environment)] == [a.path, b.path]
    assert selected("dev", environment).path == b.path
    assert selecting("dev", b.path, environment) == f" --data-dir {b.path}"
    assert selecting("a", a.path, environment) == " a"
    b.erase()
    assert [data.path for data in known_directories(environment)] == [a.path]
    assert not (tmp_path / "state" / "elsewhere").exists()
    forget_elsewhere(b.path, environment)


def test_contexts_of_clusters_elsewhere_have_names_of_their_own(environment: dict[str, str], tmp_path: Path) -> None:
    assert context_name("cathedra", tmp_path / "state", environment) == "cathedra"
    first, second = (context_name("cathedra", tmp_path / place / "own", environment) for place in ("x", "y"))
    assert first.startswith("cathedra-own-")
    assert first != second
    assert context_name("dev", tmp_path / "x", environment).startswith("cathedra-dev-")


def test_a_long_name_is_refused_with_the_rule_that_it_breaks() -> None:
    with pytest.raises(InvalidOption, match="at most 63 characters, got 80"):
        check_name("a" * 80)
    assert check_name("a" * 63)
