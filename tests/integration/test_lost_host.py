"""Three hosts of a control plane, of which one is lost while clients write and pods run.

`python -m tools.hosts` does the same for longer, with hosts that hang or are cut off, and a rolling upgrade.
"""

from __future__ import annotations

import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from tools.hosts.__main__ import HOSTS, clients, inflict
from tools.hosts.client import STEADY, WRITERS
from tools.hosts.cluster import Program, running
from tools.hosts.history import SHARED, Allocation, Call, EndState, Entry, PodRun, Snapshot, problems, read_history
from tools.hosts.network import Host, NetworkUnavailable, network_of

from tests.requirements import program, root

SECONDS = 90.0


def wait_for(history: Path, shown: Callable[[list[Entry]], bool]) -> None:
    until = time.monotonic() + SECONDS
    while not shown(read_history(history)):
        assert time.monotonic() < until, "the clients do not go on"
        time.sleep(0.2)


def test_clients_and_pods_go_on_when_a_host_of_three_is_lost() -> None:
    root()
    program("etcd")
    with tempfile.TemporaryDirectory(prefix="hosts-") as name:
        folder = Path(name)
        history = folder / "history.jsonl"
        try:
            with network_of(HOSTS) as network, running(network, folder, release="1.37", nodes=("n1",)) as cluster:
                with clients(cluster, history):
                    wait_for(history, lambda found: any(isinstance(entry, PodRun) for entry in found))
                    began = time.monotonic()

                    def everything_goes_on(found: list[Entry]) -> bool:
                        """Every writer has had an answer since, and a pod that was created since runs."""
                        answers = (entry for entry in found if isinstance(entry, Call) and entry.outcome == "ok")
                        writers = {entry.writer for entry in answers if entry.kind != "read" and entry.began > began}
                        pods = (entry for entry in found if isinstance(entry, PodRun))
                        return len(writers) == WRITERS and any(entry.created > began for entry in pods)

                    # The first host has the leaders, and the server that all parts used.
                    inflict(cluster, "kill", network.hosts[0], 0.0, lambda _: wait_for(history, everything_goes_on))
                assert list(problems(read_history(history), steady=STEADY)) == []
        except NetworkUnavailable as error:
            pytest.skip(f"network namespaces cannot be made here: {error}")


class _Ended:
    """A process that has ended."""

    def poll(self) -> int:
        return 0


def test_a_program_that_is_being_started_is_not_started_again_beside_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program("p", Host("h", "h", "127.0.0.1"), ["p"], tmp_path / "p.log", _Ended())  # type: ignore[arg-type]
    supervising = threading.Thread(target=program.start_again)
    begun: list[object] = []

    def start(*_: object, **__: object) -> object:
        begun.append(_)
        if not supervising.ident:
            supervising.start()
            supervising.join(0.2)
        return SimpleNamespace(poll=lambda: None)

    monkeypatch.setattr(subprocess, "Popen", start)
    program.start()
    supervising.join()
    assert len(begun) == 1


def call(kind: str, value: int, outcome: str = "ok", began: float = 0.0, key: str = SHARED) -> Call:
    return Call(0, kind, key, value, outcome, began, began + 0.5)


END = EndState({SHARED: 2}, ["made-0-1"], {})


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ([], "the clients did not finish"),
        ([call("swap", 1), call("swap", 1, began=1), END], "was set to 1 twice"),
        ([call("swap", 1), END], "is 2 after 1 acknowledged and 0 unknown swaps"),
        ([call("swap", 1), call("swap", 2, began=1), call("read", 1, began=3), END], "read as 1 after 2"),
        ([call("create", 1, key="made-0-2"), END], "made-0-2 was acknowledged and is not there"),
        ([Allocation("a", 1, ["d"]), Allocation("b", 2, ["d"]), END], "d was given to b at 2 while a had it"),
    ],
)
def test_a_history_shows_what_was_lost_or_doubled(entries: list[Entry], problem: str) -> None:
    assert any(problem in found for found in problems(entries, steady=0))


def test_a_write_without_an_answer_may_have_been_carried_out_or_not() -> None:
    swaps = [call("swap", 1), call("swap", 2, "unknown", 1)]
    for value in (1, 2):
        assert list(problems([*swaps, EndState({SHARED: value}, [], {})], steady=0)) == []
    again: list[Entry] = [Allocation("a", 1, ["d"]), Snapshot([Allocation("b", 5, ["d"])]), Allocation("b", 6, [])]
    assert list(problems([*swaps, *again, END], steady=0)) == []
    released = [Allocation("a", 1, ["d"]), Allocation("a", 2, []), Allocation("b", 3, ["d"])]
    assert list(problems([*swaps, *released, END], steady=0)) == []
