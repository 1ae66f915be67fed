"""A running API server, and a client in a process of its own that measures the longest answer meanwhile."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

__all__ = ["RunningServer", "running_server"]

_PROBE = """
import http.client, ssl, sys, threading, time
port = int(sys.argv[1])
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
connection = http.client.HTTPSConnection("127.0.0.1", port, context=ssl._create_unverified_context(), timeout=120)
worst = 0.0


def measured():
    begun = time.monotonic()
    connection.request("GET", "/livez")
    connection.getresponse().read()
    return time.monotonic() - begun


measured()
print("up", flush=True)
while not over.is_set():
    worst = max(worst, measured())
    time.sleep(0.01)
print(worst)
"""


class RunningServer:
    """An API server of its own process."""

    def __init__(self, process: subprocess.Popen[bytes], kubeconfig: Path) -> None:
        self._process = process
        config = yaml.safe_load(kubeconfig.read_text())
        self._port = int(config["clusters"][0]["cluster"]["server"].rpartition(":")[2])
        user = config["users"][0]["user"]
        pem = kubeconfig.with_name("client.pem")
        pem.write_bytes(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
        self._context = ssl.create_default_context()
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE
        self._context.load_cert_chain(pem)

    def __call__(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json", **headers: str
    ) -> tuple[int, bytes]:
        """The status and body of an answer to the administrator."""
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body, separators=(",", ":")).encode()
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, context=self._context, timeout=120)
        try:
            connection.request(method, path, raw, {"content-type": content_type, **headers} if raw else headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def until(self, path: str, status: int = 200) -> None:
        """Wait until a path answers with a status."""
        deadline = time.monotonic() + 60
        while self("GET", path)[0] != status:
            assert time.monotonic() < deadline, path
            time.sleep(0.05)

    def longest_stall(self, *attacks: Callable[[], object]) -> float:
        """Seconds of the longest answer to another client while all attacks run at once."""
        command = [sys.executable, "-c", _PROBE, str(self._port)]
        probe = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert probe.stdin is not None
        assert probe.stdout is not None
        assert probe.stdout.readline() == "up\n"
        threads = [threading.Thread(target=attack) for attack in attacks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found, _ = probe.communicate()
        return float(found)

    @property
    def memory(self) -> int:
        """Bytes that the server holds in memory."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return 1024 * int(status.partition("VmRSS:")[2].split()[0])


@contextmanager
def running_server(directory: Path) -> Iterator[RunningServer]:
    """A server that keeps its objects in memory."""
    kubeconfig = directory / "kubeconfig"
    command = [sys.executable, "-m", "cathedra.cli.main", "apiserver", f"--data-dir={directory}", "--store=memory"]
    with (directory / "out").open("wb") as out:
        process = subprocess.Popen([*command, "--port=0"], stdout=out, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 60
        while not kubeconfig.exists():
            assert process.poll() is None, (directory / "out").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        server = RunningServer(process, kubeconfig)
        server.until("/readyz")
        yield server
    finally:
        process.terminate()
        process.wait()
