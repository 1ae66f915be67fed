"""A child that does as it is told: what it was given for an order, it answers, fails or ends with.

python scripted_child.py FOLDER line=SOCKET …: the folder's file ``plan`` has a line for each life, which takes it away.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any

from cathedra.cluster.processes.channel import ChannelClosed, ChildLine, read_order


async def _live(folder: Path, inherited: socket.socket) -> None:
    inherited.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=inherited)
    try:
        await read_order(reader)
    except ChannelClosed:
        (folder / "never-told").touch()
        return
    life, *rest = (folder / "plan").read_text().splitlines()
    (folder / "plan").write_text("\n".join(rest))
    line = ChildLine(reader, writer)
    if life == "fails":
        await line.fail(ValueError("no such device"), "where it happened")
        return
    if life == "is killed":
        os.kill(os.getpid(), 9)

    async def answer(argument: str) -> Any:
        return f"{life} {argument}".strip()

    async def end(_: str) -> Any:
        os._exit(3)

    answers = {"ready": answer, "summary": answer, "usage": answer, "silence": end if life == "ends later" else answer}
    await line.answer(answers)


if __name__ == "__main__":
    asyncio.run(_live(Path(sys.argv[1]), socket.socket(fileno=int(sys.argv[2].removeprefix("line=")))))
