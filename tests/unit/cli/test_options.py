"""Options described once: what the parser reads, a child process is called with."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from cathedra.cli.main import main
from cathedra.cli.options import CLUSTER, CommandOption


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for option in CLUSTER:
        option.add_optional(parser)
    return parser.parse_args(words)


def words_of(arguments: argparse.Namespace) -> list[str]:
    return [word for option in CLUSTER for word in option.words(arguments)]


def an_unusual_value(option: CommandOption) -> tuple[str, ...]:
    if option.type is None:
        return (option.name,)
    if option.repeatable:
        return (f"{option.name}=a=b", f"{option.name}=--c=d e")
    if option.choices:
        return (f"{option.name}={option.choices[-1]}",)
    values: dict[object, str] = {int: "7", Path: "/some where", str: "-x y"}
    return (f"{option.name}={values.get(option.type, '/some where.yaml')}",)


@pytest.mark.parametrize("option", CLUSTER, ids=lambda option: option.name)
def test_each_option_reaches_a_child_process(option: CommandOption) -> None:
    arguments = parsed(*an_unusual_value(option))
    words = words_of(arguments)
    assert words
    assert parsed(*words) == arguments


def test_what_was_not_said_is_not_passed_on() -> None:
    assert words_of(parsed()) == []


def test_a_relative_path_is_the_callers() -> None:
    assert words_of(parsed("--data-dir=here")) == [f"--data-dir={Path('here').absolute()}"]


def test_a_node_agent_of_its_own_offers_no_simulated_runtime(capsys: pytest.CaptureFixture[str]) -> None:
    """Its containers would be in the memory of a process that has no others; simulated nodes are their cluster's."""
    with pytest.raises(SystemExit) as refused:
        main(["node", "--node-name=n", "--runtime=simulated"])
    assert refused.value.code == 2
    assert "--runtime must be one of auto, cri, oci, process: 'simulated'" in capsys.readouterr().err
