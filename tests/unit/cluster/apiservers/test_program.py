"""The program of a child with one API server; `test_supervisor` has it serve clients."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from typing import Any

from cathedra.clock import LoopClock
from cathedra.cluster.apiservers.program import Line
from cathedra.cluster.apiservers.supervisor import ALIVE, ALIVE_SECONDS
from tests.running import on_virtual_clock

SCRIPT = """
import sys
from typing import Any
import cathedra.cluster.apiservers.program
parts = ("cathedra.node.agent", "cathedra.driver", "cathedra.drivers", "cathedra.cluster.parts.inprocessnodes")
print(sorted(name for name in sys.modules if name in parts))
"""


def test_it_loads_neither_nodes_nor_drivers() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_it_ends_if_the_first_process_ends_before_it_gives_an_order() -> None:
    ours, theirs = socket.socketpair()
    words = (sys.executable, "-m", "cathedra.cluster.apiservers.program", f"line={theirs.fileno()}")
    with subprocess.Popen(words, pass_fds=(theirs.fileno(),)) as child:
        theirs.close()
        ours.close()
        assert child.wait(60) == 0


async def test_figures_are_unknown_once_the_first_process_has_ended() -> None:
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=theirs)
    line = Line(reader, writer)
    listening = asyncio.create_task(line.listen())
    cancelled, answered, unanswered = (asyncio.ensure_future(line.usage(f"node-{number}")) for number in range(3))
    cancelled.cancel()
    ours.sendall(b'{}\n{"node": "node-1"}\n')
    ours.close()
    await listening
    assert await answered == {"node": "node-1"}
    assert await unanswered is None
    assert cancelled.cancelled()
    writer.close()


@on_virtual_clock
async def test_a_child_shows_every_two_seconds_that_its_loop_runs() -> None:
    class Written:
        def __init__(self) -> None:
            self.data = b""

        def write(self, data: bytes) -> None:
            self.data += data

    loop = asyncio.get_running_loop()
    written: Any = Written()
    reporting = asyncio.create_task(Line(asyncio.StreamReader(), written).report_life(LoopClock(loop)))
    await asyncio.sleep(3 * ALIVE_SECONDS + 1)
    reporting.cancel()
    assert written.data == 4 * ALIVE
