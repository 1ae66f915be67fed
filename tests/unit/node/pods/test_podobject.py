"""The API object of a pod: newer versions, echoes, other pods of the same name, and its end."""

from __future__ import annotations

from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import Time, replace
from cathedra.node.pods.podobject import PodObject
from tests.unit.node.fakes import make_pod


def version(number: int, **metadata: object) -> Pod:
    pod = make_pod(termination_grace_period_seconds=7)
    return replace(pod, metadata=replace(pod.metadata, resource_version=str(number), **metadata))


class Followed:
    """Return an object, and the number of its notifications."""

    def __init__(self) -> None:
        self.changes = 0
        self.object = PodObject(version(5), self.changed)

    def changed(self) -> None:
        self.changes += 1


def test_only_newer_versions_are_taken() -> None:
    followed = Followed()
    for number in (4, 5):
        followed.object.offer(version(number))
    assert followed.changes == 0
    followed.object.offer(version(6))
    assert (followed.changes, followed.object.pod) == (1, version(6))


def test_what_was_written_here_is_no_change_and_its_echo_neither() -> None:
    followed = Followed()
    followed.object.note_written(version(7))
    followed.object.offer(version(7))
    assert (followed.changes, followed.object.pod) == (0, version(7))


def test_another_pod_of_that_name_means_that_this_one_is_gone() -> None:
    followed = Followed()
    followed.object.offer(version(9, uid="another"))
    assert (followed.changes, followed.object.gone, followed.object.deleted) == (1, True, True)
    assert followed.object.pod == version(5)


def test_a_deletion_says_how_long_the_pod_may_take() -> None:
    followed = Followed()
    assert (followed.object.deleted, followed.object.grace_seconds) == (False, 7)
    followed.object.offer(version(6, deletion_timestamp=Time(1.0), deletion_grace_period_seconds=0))
    assert (followed.object.deleted, followed.object.grace_seconds) == (True, 1)
    assert followed.object.own_grace_seconds == 7
