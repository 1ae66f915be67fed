"""The pod resources service: devices of each container, for monitoring agents.

docs/spec/node.md §15; docs/spec/protocols.md §8 and §9. Both versions are served on one socket, with one rate limit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from cathedra._proto import (
    podresources_v1_pb2,
    podresources_v1_pb2_grpc,
    podresources_v1alpha1_pb2,
    podresources_v1alpha1_pb2_grpc,
)
from cathedra.client.backoff import TokenBucket
from cathedra.clock import Clock
from cathedra.node.claims.checkpoint import PrepareError
from cathedra.node.claims.manager import ClaimManager, claim_devices, container_claims
from cathedra.node.grpcsocket import serve_at
from cathedra.node.metrics import NodeMetrics
from cathedra.node.pods.podmanager import PodManager
from cathedra.node.pods.worker import PodWorker
from cathedra.releases import FeatureGates

_RATE: Final = 100.0
_BURST: Final = 10


class PodResourcesServer:
    """Serves ``kubelet.sock`` in a directory until cancelled."""

    def __init__(
        self,
        directory: Path,
        pods: PodManager,
        claims: ClaimManager,
        *,
        clock: Clock,
        gates: FeatureGates,
        metrics: NodeMetrics,
    ) -> None:
        self._directory = directory
        self._pods = pods
        self._claims = claims
        self._gates = gates
        self._metrics = metrics
        self._limit = TokenBucket(clock, rate=_RATE, burst=_BURST)

    async def run(self) -> None:
        """Serve until cancelled, on a new socket."""
        self._directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        path = self._directory / "kubelet.sock"
        path.unlink(missing_ok=True)
        server = grpc.aio.server(interceptors=[_RateLimit(self._limit)])
        podresources_v1_pb2_grpc.add_PodResourcesListerServicer_to_server(self, server)
        podresources_v1alpha1_pb2_grpc.add_PodResourcesListerServicer_to_server(_Alpha(self, self._metrics), server)
        await serve_at(server, path)

    async def List(self, request: Any, context: Any) -> podresources_v1_pb2.ListPodResourcesResponse:  # noqa: N802
        """Return all pods that are not over."""
        self._metrics.pod_resources("list", "v1")
        pods = [self.of_pod(worker) for worker in self.listed()]
        return podresources_v1_pb2.ListPodResourcesResponse(pod_resources=pods)

    async def Get(self, request: Any, context: Any) -> podresources_v1_pb2.GetPodResourcesResponse:  # noqa: N802
        """Return the resources of one pod."""
        self._metrics.pod_resources("get", "v1")
        worker = self._pods.find(request.pod_namespace, request.pod_name)
        problem = ""
        if not self._gates["KubeletPodResourcesGet"]:
            problem = "PodResources API Get method disabled"
        elif worker is None or worker.over:
            problem = f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
        if worker is None or problem:
            self._metrics.pod_resources_failed("get", "v1")
            await context.abort(grpc.StatusCode.UNKNOWN, problem)
        assert worker is not None, "abort does not return"
        return podresources_v1_pb2.GetPodResourcesResponse(pod_resources=self.of_pod(worker))

    async def GetAllocatableResources(  # noqa: N802
        self, request: Any, context: Any
    ) -> podresources_v1_pb2.AllocatableResourcesResponse:
        """Return nothing: devices of claims never appear here, and there are no device plugins."""
        self._metrics.pod_resources("get_allocatable", "v1")
        return podresources_v1_pb2.AllocatableResourcesResponse()

    def listed(self) -> list[PodWorker]:
        """Return the pods that are reported."""
        if self._gates["KubeletPodResourcesListUseActivePods"]:
            return [worker for worker in self._pods.workers() if not worker.over]
        return list(self._pods.workers())

    def of_pod(self, worker: PodWorker) -> podresources_v1_pb2.PodResources:
        """Return the resources of a pod's containers."""
        records = [r for r in worker.records if r.sidecar] + [r for r in worker.records if not r.init]
        return podresources_v1_pb2.PodResources(
            name=worker.pod.metadata.name,
            namespace=worker.pod.metadata.namespace,
            containers=[
                podresources_v1_pb2.ContainerResources(
                    name=record.name, dynamic_resources=self._dynamic(worker, record.container)
                )
                for record in records
            ],
        )

    def _dynamic(self, worker: PodWorker, container: Any) -> list[podresources_v1_pb2.DynamicResource]:
        if not self._gates["KubeletPodResourcesDynamicResources"]:
            return []
        pod = worker.pod
        found = []
        try:
            for claim, _ in container_claims(pod, container, self._gates):
                info = self._claims.cache.get(pod.metadata.namespace, claim.name)
                if info is None:
                    continue
                resources = [
                    podresources_v1_pb2.ClaimResource(
                        cdi_devices=[podresources_v1_pb2.CDIDevice(name=name) for name in device.cdi_device_ids],
                        driver_name=driver,
                        pool_name=device.pool,
                        device_name=device.device,
                        share_id=device.share_id,
                    )
                    for driver, device in sorted(claim_devices(info, ""), key=lambda entry: entry[0])
                ]
                found.append(
                    podresources_v1_pb2.DynamicResource(
                        claim_name=info.name, claim_namespace=info.namespace, claim_resources=resources
                    )
                )
        except PrepareError:
            return found  # a claim that does not exist yet holds nothing
        return found


class _Alpha:
    """The first version: names only."""

    def __init__(self, server: PodResourcesServer, metrics: NodeMetrics) -> None:
        self._server = server
        self._metrics = metrics

    async def List(  # noqa: N802
        self, request: Any, context: Any
    ) -> podresources_v1alpha1_pb2.ListPodResourcesResponse:
        self._metrics.pod_resources("list", "v1alpha1")
        pods = [
            podresources_v1alpha1_pb2.PodResources(
                name=pod.name,
                namespace=pod.namespace,
                containers=[podresources_v1alpha1_pb2.ContainerResources(name=c.name) for c in pod.containers],
            )
            for pod in map(self._server.of_pod, self._server.listed())
        ]
        return podresources_v1alpha1_pb2.ListPodResourcesResponse(pod_resources=pods)


class _RateLimit(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs alone
    """A token bucket in front of all methods."""

    def __init__(self, bucket: TokenBucket) -> None:
        self._bucket = bucket

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any) -> Any:
        if self._bucket.take():
            return await continuation(handler_call_details)
        handler = await continuation(handler_call_details)

        async def refuse(request: Any, context: Any) -> Any:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")

        if handler is None:
            return None
        return grpc.unary_unary_rpc_method_handler(
            refuse,
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )
