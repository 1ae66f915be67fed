"""How long a pod waits before it is tried again."""

from __future__ import annotations

import pytest

from cathedra.scheduler.queue.queuedpod import Backoff, QueuedPodInfo
from cathedra.scheduler.state.pod_info import PodInfo
from tests.unit.scheduler.objects import pod


def queued(*, refused: int = 0, errors: int = 0) -> QueuedPodInfo:
    return QueuedPodInfo(PodInfo(pod("p")), 0.0, unschedulable_count=refused, errors=errors)


@pytest.mark.parametrize(("refused", "seconds"), [(0, 0), (1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (1000, 10)])
def test_every_refusal_doubles_the_pause_up_to_ten_seconds(refused: int, seconds: float) -> None:
    assert Backoff().seconds(queued(refused=refused)) == seconds


def test_errors_in_a_row_count_by_themselves() -> None:
    assert Backoff().seconds(queued(refused=4, errors=1)) == 1.0


def test_both_ends_can_be_chosen() -> None:
    backoff = Backoff(initial=0.5, maximum=3.0)
    assert [backoff.seconds(queued(refused=n)) for n in (1, 2, 3, 4)] == [0.5, 1.0, 2.0, 3.0]


def test_the_uid_is_the_pods() -> None:
    assert queued().uid == "uid-p"
