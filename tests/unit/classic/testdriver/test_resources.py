"""What the test driver has to give, and how it tells its node plugin."""

from __future__ import annotations

from pathlib import Path

import pytest

from cathedra.classic.testdriver.resources import HandleData, InvalidResources, TestResources, read_resources


def test_a_file_has_the_names_of_the_go_program(tmp_path: Path) -> None:
    file = tmp_path / "resources.json"
    file.write_text('{"NodeLocal": true, "Nodes": ["a"], "MaxAllocations": 2, "Shareable": true}')
    assert read_resources(file) == TestResources(node_local=True, nodes=("a",), max_allocations=2, shareable=True)


@pytest.mark.parametrize("text", ['{"Nodelocal": true}', "[]", "{", '{"MaxAllocations": "2"}'])
def test_what_it_does_not_know_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "resources.json"
    file.write_text(text)
    with pytest.raises(InvalidResources, match=r"^--resource-config .*resources.json: .+$"):
        read_resources(file)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(InvalidResources, match="--resource-config /nowhere: No such file or directory"):
        read_resources(Path("/nowhere"))


def test_handles_are_read_as_they_are_written() -> None:
    data = HandleData({"user_a": "b"}, "n")
    assert data.encode() == '{"EnvVars":{"user_a":"b"},"NodeName":"n"}'
    assert HandleData.decode(data.encode()) == data
    assert HandleData.decode("") == HandleData({}, "")
    with pytest.raises(ValueError, match="resource handle 'x'"):
        HandleData.decode("x")


def test_claims_of_the_cluster_can_be_used_where_it_has_resources() -> None:
    assert TestResources().available_on("") is None
    for resources, node, wanted in (
        (TestResources(nodes=("a", "b")), "", ("a", "b")),
        (TestResources(node_local=True), "a", ("a",)),
    ):
        selector = resources.available_on(node)
        assert selector is not None
        (term,) = selector.node_selector_terms or ()
        assert [(one.key, one.values) for one in term.match_expressions] == [("kubernetes.io/hostname", wanted)]
