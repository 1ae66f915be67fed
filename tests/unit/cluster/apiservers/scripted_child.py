"""A child that ends as a file says.

python scripted_child.py FOLDER line=SOCKET …: the folder's file ``plan`` has a line for each life, which takes it away.
"""

from __future__ import annotations

import json
import os
import pickle
import socket
import sys
from pathlib import Path
from typing import Any

from cathedra.cluster.apiservers.supervisor import LENGTH


def _live(folder: Path, line: socket.socket) -> None:
    stream = line.makefile("rwb")
    length = stream.read(LENGTH.size)
    if not length:
        (folder / "never-ordered").touch()
        return
    (folder / "order").write_bytes(stream.read(*LENGTH.unpack(length)))
    life, *rest = (folder / "plan").read_text().splitlines()
    (folder / "plan").write_text("\n".join(rest))
    if life == "fails":
        sys.exit(7)
    if life == "is killed":
        os.kill(os.getpid(), 9)

    def send(message: Any) -> None:
        stream.write(json.dumps(message).encode() + b"\n")
        stream.flush()

    send({"ready": True})
    send({"id": 1, "usage": "node-0"})
    (folder / "usage").write_bytes(stream.readline())
    if life == "ends later":
        sys.exit(3)
    stream.readline()


if __name__ == "__main__":
    sockets = dict(word.split("=") for word in sys.argv[2:])
    _live(Path(sys.argv[1]), socket.socket(fileno=int(sockets["line"])))


def ordered(folder: Path) -> Any:
    """The order that the last life was given."""
    return pickle.loads((folder / "order").read_bytes())
