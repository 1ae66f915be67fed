"""Options that are kept: which source counts, and what has changed."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from cathedra.cli.cluster.remembered import WantedCluster, field_name, remembered_gates, wanted_cluster
from cathedra.cli.options import CLUSTER, CONFIG, REMEMBERED
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.data.directories import read_description, write_description
from cathedra.releases import DEFAULT_RELEASE


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory of the test's own."""
    monkeypatch.setenv("CATHEDRA_DATA_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def wanted(*words: str) -> WantedCluster:
    """Return the configuration of a command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", nargs="?")
    for option in (*CLUSTER, CONFIG):
        option.add_optional(parser)
    return wanted_cluster(parser.parse_args(words))


def started(*words: str) -> WantedCluster:
    """The same, and kept as a start does."""
    found = wanted(*words)
    data = DataDir(found.arguments.data_dir)
    data.path.mkdir(parents=True, exist_ok=True)
    write_description(data.description, found.description)
    return found


def test_a_first_start_has_the_defaults_and_no_changes(home: Path) -> None:
    first = wanted()
    assert (first.arguments.nodes, first.arguments.store, first.arguments.name) == (["1"], "sqlite", "cathedra")
    assert (first.arguments.data_dir, first.kept, first.changes) == (home, None, ())


def test_what_was_given_once_holds_at_the_next_start() -> None:
    started("dev", "--nodes=3", "--gpu-attribute=a=true", "--gpu-attribute=b=x", "--feature-gates=G=true,H=false")
    again = wanted("dev")
    assert (again.arguments.nodes, again.changes) == (["3"], ())
    assert again.arguments.gpu_attribute == ["a=true", "b=x"]
    assert again.arguments.feature_gates == "G=true,H=false"


def test_an_option_that_only_an_earlier_version_kept_is_ignored(home: Path) -> None:
    started("--nodes=3")
    kept = home / "cluster.yaml"
    kept.write_text(kept.read_text() + "  processes: 2\n")
    again = wanted()
    assert (again.arguments.nodes, again.changes) == (["3"], ())
    assert "processes" not in again.description.spec


def test_what_is_given_again_changes_it_also_back_to_the_default() -> None:
    started("--nodes=3", "--gpus=2")
    changed = started("--nodes=1")
    assert changed.changes == ("nodes: 3 → 1",)
    assert (changed.arguments.nodes, changed.arguments.gpus) == (["1"], 2)
    assert wanted().changes == ()


def test_each_cluster_keeps_its_own(home: Path) -> None:
    started("a", "--nodes=2")
    started("b", "--nodes=4")
    assert (wanted("a").arguments.nodes, wanted("b").arguments.nodes) == (["2"], ["4"])
    assert wanted("b").arguments.data_dir == home / "clusters" / "b"


def test_a_file_replaces_what_is_kept_and_options_go_before_it(tmp_path: Path) -> None:
    started("dev", "--nodes=3", "--gpus=2")
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "apiVersion: cathedra.dev/v1\nkind: Cluster\nmetadata: {name: dev}\n"
        "spec: {nodes: 5, featureGates: {G: true}, auditLogPath: /tmp/log}\n"
    )
    found = wanted(f"--config={file}", "--port=7000")
    assert (found.arguments.name, found.arguments.nodes, found.arguments.gpus) == ("dev", ["5"], 8)
    assert (found.arguments.feature_gates, found.arguments.port) == ("G=true", 7000)
    assert found.arguments.audit_log_path == Path("/tmp/log")
    assert "nodes: 3 → 5" in found.changes


@pytest.mark.parametrize("option", REMEMBERED, ids=field_name)
def test_every_kept_option_is_written_and_read_back(option: object, tmp_path: Path) -> None:
    first = started("--data-dir", str(tmp_path / "d"))
    assert read_description(tmp_path / "d" / "cluster.yaml") == first.description
    assert vars(wanted("--data-dir", str(tmp_path / "d")).arguments)[option.attribute] == option.absent  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "must begin with apiVersion: cathedra.dev/v1 and kind: Cluster"),
        ("apiVersion: cathedra.dev/v2\nkind: Cluster\n", "must begin with apiVersion"),
        (
            "apiVersion: cathedra.dev/v1\nkind: Cluster\nspec: {node: 1}\n",
            "spec.node is unknown; did you mean 'nodes'?",
        ),
        ("apiVersion: cathedra.dev/v1\nkind: Cluster\nspec: {nodes: two}\n", "spec.nodes must be a whole number"),
        ("apiVersion: cathedra.dev/v1\nkind: Cluster\nspec: {kubernetesVersion: 1.37}\n", "put it in quotes"),
        ("apiVersion: cathedra.dev/v1\nkind: Cluster\nspec: {runtime: vm}\n", "must be one of auto, cri, oci"),
        ("apiVersion: cathedra.dev/v1\nkind: Cluster\nspec: {featureGates: yes}\n", "must be a table"),
        ("apiVersion: cathedra.dev/v1\nkind: Cluster\nmetadata: {name: A_b}\n", "metadata.name must be lower case"),
        ("apiVersion: cathedra.dev/v1\nkind: Cluster\nspecs: {}\n", "specs is not as in a Cluster"),
        ("a: [", "yaml: line"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    with pytest.raises(InvalidOption) as raised:
        wanted(f"--config={file}")
    assert str(raised.value).startswith(str(file))
    assert why in str(raised.value)


def test_a_directory_belongs_to_one_cluster(tmp_path: Path) -> None:
    started("a", f"--data-dir={tmp_path / 'd'}")
    with pytest.raises(InvalidOption, match="holds the cluster 'a'; choose another --data-dir for 'b'"):
        wanted("b", f"--data-dir={tmp_path / 'd'}")


@pytest.mark.parametrize("name", ["A", "../x", "a.b", "-a", "a" * 64])
def test_a_name_that_is_no_label_is_refused(name: str) -> None:
    with pytest.raises((InvalidOption, SystemExit)):
        wanted(name)


def test_the_gates_of_a_cluster_are_those_of_its_last_start() -> None:
    data = DataDir(
        started("--kubernetes-version", "1.34", "--feature-gates", "DRADeviceTaints=true").arguments.data_dir
    )
    gates = remembered_gates(data)
    assert (gates.release, gates["DRADeviceTaints"], gates["DRAConsumableCapacity"]) == ("1.34", True, False)


def test_a_directory_that_remembers_nothing_stands_for_the_newest_release(tmp_path: Path) -> None:
    assert remembered_gates(DataDir(tmp_path)).release == DEFAULT_RELEASE


def test_a_profile_is_kept_by_name_and_a_file_of_one_by_its_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    started("a", "--profile=h100-8")
    assert wanted("a").arguments.profile == "h100-8"
    started("b", "--profile=mine.yaml")
    assert wanted("b").arguments.profile == str(tmp_path / "mine.yaml")
    assert started("a", "--profile=mi300x-8").changes == ("profile: h100-8 → mi300x-8",)


def test_a_release_may_begin_with_v(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("apiVersion: cathedra.dev/v1\nkind: Cluster\nspec: {kubernetesVersion: v1.36}\n")
    assert wanted("--kubernetes-version=v1.36").arguments.kubernetes_version == "1.36"
    assert wanted(f"--config={file}").arguments.kubernetes_version == "1.36"


def test_groups_of_nodes_are_kept_as_a_list_and_a_number_as_a_number(tmp_path: Path) -> None:
    assert started("--nodes=3").description.spec["nodes"] == 3
    grouped = started("--nodes=2", "--nodes=gpu=1:h100-8")
    assert grouped.description.spec["nodes"] == ["2", "gpu=1:h100-8"]
    assert grouped.changes == ("nodes: 3 → 2, gpu=1:h100-8",)
    assert wanted().arguments.nodes == ["2", "gpu=1:h100-8"]
