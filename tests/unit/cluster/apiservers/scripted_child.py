"""A child process that ends as a file prescribes.

python scripted_child.py FOLDER line=SOCKET …: the folder's file ``plan`` has a line for each life, which takes it away.
"""

from __future__ import annotations

import base64
import os
import pickle
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from cathedra.cluster.apiservers.supervisor import ALIVE, READY


def _live(folder: Path, line: socket.socket) -> None:
    stream = line.makefile("rwb")
    order = stream.readline()
    if not order:
        (folder / "never-ordered").touch()
        return
    (folder / "order").write_bytes(base64.b64decode(order))
    life, *rest = (folder / "plan").read_text().splitlines()
    (folder / "plan").write_text("\n".join(rest))
    if life == "fails":
        sys.exit(7)
    if life == "is killed":
        os.kill(os.getpid(), 9)

    stream.write(READY + b"node-0\n")
    stream.flush()
    (folder / "usage").write_bytes(stream.readline())
    if life == "ends later":
        sys.exit(3)
    if life == "is stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    if life == "reports":
        for _ in range(15):
            time.sleep(0.1)
            stream.write(ALIVE)
            stream.flush()
        sys.exit(3)
    stream.readline()


if __name__ == "__main__":
    sockets = dict(word.split("=") for word in sys.argv[2:])
    _live(Path(sys.argv[1]), socket.socket(fileno=int(sockets["line"])))


def ordered(folder: Path) -> Any:
    """The order that the last life was given."""
    return pickle.loads((folder / "order").read_bytes())
