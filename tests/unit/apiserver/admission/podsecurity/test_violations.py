"""Names of containers and volumes in the texts of violations."""

from __future__ import annotations

from cathedra.apiserver.admission.podsecurity.violations import containers, named, plural, setters, with_context
from tests.unit.apiserver.admission.podsecurity.pods import container, pod


def test_one_and_several_are_named_apart() -> None:
    assert named(["a"]) == 'container "a"'
    assert named(["a", "b"]) == 'containers "a", "b"'
    assert [plural("volume", count) for count in (1, 2)] == ["volume", "volumes"]


def test_the_pod_and_its_containers_may_both_have_set_something() -> None:
    assert setters([], pod=False) == ""
    assert setters(["a"], pod=True) == 'pod and container "a"'


def test_containers_of_all_sorts_are_seen() -> None:
    made = pod(container("b"), initContainers=[container("a")], ephemeralContainers=[{"name": "c"}])
    assert [one.name for one in containers(made.spec)] == ["a", "b", "c"]
    assert [name for name, _ in with_context(made.spec)] == ["a", "b"]
