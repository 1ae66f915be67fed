"""Options of parts that run alone."""

from __future__ import annotations

import argparse

import pytest

from cathedra.cli.main import _parser
from cathedra.cli.options import LOGGING, add_all
from cathedra.cli.partoptions import COMPONENT, DRIVER_CONTROL, DRIVER_PROCESS, ENROLMENT, go_words
from cathedra.cluster import InvalidOption


def test_everything_that_addresses_a_node_of_a_cluster_selects_it_alike() -> None:
    for options in (DRIVER_CONTROL, DRIVER_PROCESS, ENROLMENT):
        parser = argparse.ArgumentParser()
        add_all(parser, options)
        node = () if options is DRIVER_PROCESS else ("--node-name", "n")
        found = parser.parse_args(["-c", "dev", "--data-dir", "/lab", *node])
        assert (found.cluster, str(found.data_dir)) == ("dev", "/lab")


OPTIONS = (*COMPONENT, *LOGGING)


@pytest.mark.parametrize(
    ("given", "words", "ignored"),
    [
        ("--leader-elect=false", "", ""),
        ("--leader-elect=true", "--leader-elect", ""),
        ("--leader-elect --leader-elect=false", "", ""),
        ("--leader_elect=T", "--leader-elect", ""),
        ("--v=4 --secure-port=0", "--log-level=debug --secure-port=0", ""),
        ("-v 2", "", ""),
        ("--logging-format json", "--log-format=json", ""),
        ("--profiling=false --kube-api-qps 50 --bind-address=::1", "--bind-address=::1", "--profiling --kube-api-qps"),
        ("--authentication-kubeconfig=/etc/x.conf", "", "--authentication-kubeconfig"),
        ("--leader-elct", "--leader-elct", ""),
    ],
)
def test_flags_are_taken_as_kubernetes_programs_take_them(given: str, words: str, ignored: str) -> None:
    assert go_words("scheduler", OPTIONS, given.split()) == (words.split(), ignored.split())


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("--leader-elect=maybe", "--leader-elect must be true or false, got 'maybe'"),
        ("--v=many", "--v must be a whole number, got 'many'"),
    ],
)
def test_a_flag_with_a_wrong_value_is_refused(word: str, why: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        go_words("scheduler", OPTIONS, [word])
    assert str(refused.value) == why


def test_no_option_that_has_an_effect_is_ignored() -> None:
    for part in ("apiserver", "scheduler", "controller-manager", "node", "driver"):
        parser = part_parsers()[part]
        own = [f"--{name.replace('_', '-')}" for name in vars(parser) if name not in ("command", "part")]
        words = [f"{name}=1" for name in own if name not in ("--help",)]
        assert go_words(part, (), words)[1] == []


def part_parsers() -> dict[str, argparse.Namespace]:
    """The parsed arguments of each part without options."""
    needed = {"node": ["--node-name=n"], "driver": ["--node-name=n"]}
    parts = ("apiserver", "scheduler", "controller-manager", "node", "driver")
    return {part: _parser([]).parse_args([part, *needed.get(part, [])]) for part in parts}
