"""exec, attach and port-forward: the same handlers for WebSockets and SPDY/3.1.

docs/spec/node.md §17.10 and docs/spec/kubectl.md §6.2–6.3. SPDY clients show an HTTP error before the upgrade.
WebSocket clients do not, so there the error channel carries the refusal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cathedra.api.status import StatusError, bad_request, failure, internal_error
from cathedra.asgi.upgrade import Upgrade
from cathedra.node.containers.records import ContainerRecord
from cathedra.node.pods.worker import PodWorker
from cathedra.node.runtime.runtime import ExecProcess, Runtime, RuntimeFailure
from cathedra.node.server import spdycommand
from cathedra.node.server.bytechannel import NumberedChannels, UpgradedChannel, WebSocketChannel, choose_protocol
from cathedra.node.server.portforward import (
    MOST_PORTS,
    STREAMS,
    TUNNEL,
    ConnectPort,
    port_connector,
    serve_channels,
    serve_tunnel,
)
from cathedra.node.server.portforward import PROTOCOLS as FORWARDING
from cathedra.node.server.remotecommand import PROTOCOLS as COMMANDS
from cathedra.node.server.remotecommand import AnnouncedStreams, CommandSocket
from cathedra.node.server.request import NodeRequest

_PROTOCOL: Final = b"x-stream-protocol-version"
_ACCEPTED: Final = b"x-accepted-stream-protocol-versions"


class StreamServer:
    """Connects clients with the commands and ports of pods."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def connect(self, request: NodeRequest, record: ContainerRecord) -> None:
        """Run a command in a container, or attach to its own.

        Raises:
            StatusError: it was refused before the upgrade.
        """
        wanted = AnnouncedStreams(
            stdin=request.flag("stdin", "input"),
            stdout=request.flag("stdout", "output"),
            stderr=request.flag("stderr", "error"),
            tty=request.flag("tty"),
        )
        if not wanted.any:
            raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
        if request.upgrade is not None:
            await self._connect_spdy(request, request.upgrade, record, wanted)
            return
        protocol = await _accepted(request, COMMANDS)
        socket = CommandSocket(request.receive, request.send, protocol, wanted)
        await socket.greet()
        try:
            process = await self._process(request, record)
        except StatusError as error:
            await socket.refuse(error.to_json())
        else:
            await socket.serve(process)

    async def _connect_spdy(
        self, request: NodeRequest, upgrade: Upgrade, record: ContainerRecord, wanted: AnnouncedStreams
    ) -> None:
        if record.current is None or not record.current.running:
            raise failure(500, "InternalError", _not_found(record))
        if not await _switched(request, spdycommand.PROTOCOLS):
            return
        reader, writer = upgrade.streams
        try:
            channel = UpgradedChannel(reader, writer)
            await spdycommand.serve_spdy_command(channel, wanted, lambda: self._process(request, record))
        finally:
            writer.close()

    async def _process(self, request: NodeRequest, record: ContainerRecord) -> ExecProcess:
        current = record.current
        if current is None or not current.running:
            raise internal_error(_not_found(record))
        try:
            if request.parts[0] == "attach":
                return await self._runtime.attach(current.id)
            return await self._execute(current.id, request)
        except RuntimeFailure as error:
            raise internal_error(error.message) from error

    async def _execute(self, container_id: str, request: NodeRequest) -> ExecProcess:
        command = tuple(request.query.get("command", ()))
        if not command:
            raise bad_request("you must specify at least 1 command for the container")
        stdin = request.flag("stdin", "input")
        return await self._runtime.exec(container_id, command, tty=request.flag("tty"), stdin=stdin)

    async def forward(self, request: NodeRequest, worker: PodWorker) -> None:
        """Forward connections to ports of a pod.

        Raises:
            StatusError: it was refused before the upgrade.
        """
        if not any(record.running for record in worker.records):
            raise failure(500, "InternalError", f'pod "{worker.pod.metadata.name}" has no running container')
        connect = port_connector(self._runtime, worker.pod.metadata.uid, lambda: _running_containers(worker))
        if request.upgrade is not None:
            await _forward_spdy(request, request.upgrade, connect)
            return
        ports = [int(port) for port in ",".join(request.query.get("port", ())).split(",") if port.isdecimal()]
        if TUNNEL not in request.subprotocols:
            _check_ports(ports)
        protocol = await _accepted(request, FORWARDING)
        if protocol == TUNNEL:
            await serve_tunnel(WebSocketChannel(request.receive, request.send), connect)
        else:
            channels = NumberedChannels(request.receive, request.send, base64="base64." in protocol)
            await serve_channels(ports, channels, connect)


async def _accepted(request: NodeRequest, known: Sequence[str]) -> str:
    """Accept a WebSocket. Return its sub-protocol.

    Raises:
        StatusError: 403 as at a kubelet, it offers only others.
    """
    protocol = choose_protocol(request.subprotocols, known)
    if protocol is None:
        offered = " ".join(request.subprotocols)
        names = " ".join(each for each in known if each)
        raise failure(403, "Forbidden", f"requested protocol(s) are not supported: [{offered}]; supports [{names}]")
    await request.receive()  # the connection itself
    await request.send({"type": "websocket.accept", "subprotocol": protocol or None})
    return protocol


def _running_containers(worker: PodWorker) -> set[str]:
    """The IDs of a pod's containers that run now."""
    return {record.current.id for record in worker.records if record.current is not None and record.current.running}


def _check_ports(ports: Sequence[int]) -> None:
    """Check the ports of the form with channels, whose numbers are one byte.

    Raises:
        StatusError: 400, there are none, or too many.
    """
    if not ports or max(ports) > 65535:
        raise bad_request('query parameter "port" is required')
    if len(ports) > MOST_PORTS:
        raise bad_request(f'query parameter "port" names {len(ports)} ports, and there are channels for {MOST_PORTS}')


async def _forward_spdy(request: NodeRequest, upgrade: Upgrade, connect: ConnectPort) -> None:
    if not await _switched(request, (STREAMS,)):
        return
    reader, writer = upgrade.streams
    try:
        await serve_tunnel(UpgradedChannel(reader, writer), connect)
    finally:
        writer.close()


def _not_found(record: ContainerRecord) -> str:
    """A kubelet's words. No colon: kubectl would take "a: b" for YAML, and show neither."""
    return f'container not found ("{record.name}")'


async def _switched(request: NodeRequest, known: Sequence[str]) -> bool:
    """Switch to the best stream protocol that both sides support. Return False if there is none; the error was sent."""
    protocol = next((each for each in known if each in request.stream_protocols), None)
    if protocol is not None:
        headers = [(b"upgrade", b"SPDY/3.1"), (_PROTOCOL, protocol.encode())]
        await request.send({"type": "http.response.start", "status": 101, "headers": headers})
        return True
    await _refuse_protocols(request, known)
    return False


async def _refuse_protocols(request: NodeRequest, known: Sequence[str]) -> None:
    offered = " ".join(request.stream_protocols)
    body = f"unable to upgrade: unable to negotiate protocol: client supports [{offered}], server accepts {list(known)}"
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body.encode())).encode())]
    headers += [(_ACCEPTED, each.encode()) for each in known]
    await request.send({"type": "http.response.start", "status": 403, "headers": headers})
    await request.send({"type": "http.response.body", "body": body.encode()})
