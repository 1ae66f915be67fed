"""Client of a driver of 1.26 to 1.30, with the interface by which the node agent calls drivers.

The client adds the resource handles, which a driver's controller has written into the claims for its node plugin. It
calls the newest service that the release has, and the one before it if the driver answers «unimplemented», as those
kubelets did (docs/spec/protocols.md §6).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any, Final, NamedTuple, TypeVar

from cathedra._proto import dra_classic_pb2 as messages
from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.goquote import go_quote
from cathedra.api.status import StatusError
from cathedra.api.struct import RawJSON
from cathedra.classic.nodes.listing import LIST_METHOD, NodeSlices, ResourceListing
from cathedra.classic.resources import CLAIMS
from cathedra.client.client import Client
from cathedra.clock import Clock
from cathedra.node.concurrency import BlockTasks
from cathedra.node.metrics import NodeMetrics
from cathedra.node.plugins.client import (
    ClaimReference,
    ConnectedPlugin,
    DialPlugin,
    HealthClient,
    MakeDial,
    PluginCallError,
    PluginDevice,
    PrepareOutcome,
    RegistrationError,
)
from cathedra.node.plugins.grpcclient import PluginChannel
from cathedra.releases import FeatureGates, classic

_UNIMPLEMENTED: Final = "Unimplemented"
A = TypeVar("A")


def services_of(gates: FeatureGates) -> tuple[str, ...]:
    """Return the services that a kubelet of the release calls, in the order in which it tries them."""
    if gates.has(classic.SERVICE_V1ALPHA3):
        return ("v1alpha3", "v1alpha2")
    return ("v1alpha2",) if gates.has(classic.SERVICE_V1ALPHA2) else ("v1alpha1",)


class AgentContext(NamedTuple):
    """The agent of a node, as far as its clients of drivers use it."""

    api: Client
    """Reads claims as the node."""
    services: Sequence[str]
    """Tried in this order."""
    clock: Clock
    metrics: NodeMetrics


class ClassicPluginClient(PluginChannel):
    """One driver instance in a protocol of 1.26 to 1.30."""

    def __init__(
        self,
        driver: str,
        endpoint: str,
        agent: AgentContext,
        *,
        listing: ResourceListing | None = None,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        """Create a client that is not connected yet.

        ``listing`` publishes the resources that the driver lists; with None the driver is not called for that.
        ``on_close`` is called when the driver is not registered any more.
        """
        super().__init__(driver, endpoint, clock=agent.clock, metrics=agent.metrics)
        self._listing = listing
        self._on_close = on_close
        self._api = agent.api
        self._services = tuple(agent.services)
        self._handles: dict[str, Handle] = {}
        """By claim UID, because a claim that is gone must still be unprepared."""
        self._devices: dict[str, tuple[str, ...]] = {}

    async def follow_connection(self, on_connection: Callable[[bool], None]) -> None:
        """Keep connecting, report each beginning and end, and publish what the driver lists; until cancelled."""
        async with BlockTasks() as tasks:
            if self._listing is not None:
                tasks.start(self._listing.follow(self._listen))
            await super().follow_connection(on_connection)

    async def close(self) -> None:
        """Close the connection, and remove the slices that were published for the driver."""
        await super().close()
        self._on_close()
        if self._listing is not None:
            self._listing.end()

    def _listen(self) -> AsyncGenerator[bytes]:
        call = self._channel.unary_stream(
            f"/v1alpha3.Node/{LIST_METHOD}", request_serializer=None, response_deserializer=None
        )
        return self._received(partial(call, b""))

    async def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, PrepareOutcome]:
        """Make the claims' devices ready; by claim UID.

        Raises:
            PluginCallError: the call failed as a whole.
        """
        for claim in claims:
            # Read again at each prepare: the claim may have been reallocated since.
            self._handles[claim.uid] = await self._read_handle(claim)
        answers = await self._with_service(lambda service: self._prepare(service, claims))
        for uid, answer in answers.items():
            if not answer.error:
                self._devices[uid] = tuple(name for device in answer.devices for name in device.cdi_device_ids)
        return answers

    async def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, str]:
        """Unprepare the claims. Return an error text or "" by claim UID.

        Raises:
            PluginCallError: the call failed as a whole.
        """
        for claim in claims:
            if claim.uid not in self._handles:
                # After a restart of the agent; a claim that is gone has an empty handle, and the driver must still be
                # called.
                self._handles[claim.uid] = await self._read_handle(claim)
        answers = await self._with_service(lambda service: self._unprepare(service, claims))
        for uid, error in answers.items():
            if not error:
                self._handles.pop(uid, None)
                self._devices.pop(uid, None)
        return answers

    async def _read_handle(self, claim: ClaimReference) -> Handle:
        """Return the handle that the driver's controller wrote into the claim. It is empty if the claim is gone."""
        try:
            found = await self._api.resource(CLAIMS, claim.namespace).get(claim.name)
        except StatusError as error:
            if error.is_not_found:
                return Handle()
            raise PluginCallError("Unavailable", str(error)) from error
        except ConnectionError as error:
            raise PluginCallError("Unavailable", str(error)) from error
        # Another claim of that name: its data would be passed to the driver for the wrong claim.
        return handle_of(found, self._driver) if found.metadata.uid == claim.uid else Handle()

    async def _with_service(self, call: Callable[[str], Awaitable[A]]) -> A:
        """``call`` with the first service that the driver implements; it is the only one tried from then on."""
        while True:
            service = self._services[0]
            try:
                return await call(service)
            except PluginCallError as error:
                if error.code != _UNIMPLEMENTED or len(self._services) == 1:
                    raise
                # Calls run at the same time: another one may have moved on to the next service already.
                if self._services[0] == service:
                    self._services = self._services[1:]

    async def _prepare(self, service: str, claims: Sequence[ClaimReference]) -> Mapping[str, PrepareOutcome]:
        if service == "v1alpha3":
            request = messages.NodePrepareResourcesRequest(claims=[self._claim(claim) for claim in claims])
            reply = await self._unary(service, "NodePrepareResources", request, messages.NodePrepareResourcesResponse)
            return {uid: _outcome(answer.cdi_devices, answer.error) for uid, answer in reply.claims.items()}
        return dict(
            zip(
                (claim.uid for claim in claims),
                # These services take one claim per call.
                await asyncio.gather(*(self._prepare_one(service, claim) for claim in claims)),
                strict=True,
            )
        )

    async def _prepare_one(self, service: str, claim: ClaimReference) -> PrepareOutcome:
        handle = self._handles[claim.uid]
        request = messages.NodePrepareResourceRequest(
            namespace=claim.namespace,
            claim_uid=claim.uid,
            claim_name=claim.name,
            resource_handle=handle.data,
            structured_resource_handle=handle.structured_messages(),
        )
        reply = await self._unary(service, "NodePrepareResource", request, messages.NodePrepareResourceResponse)
        return _outcome(reply.cdi_devices, "")

    async def _unprepare(self, service: str, claims: Sequence[ClaimReference]) -> Mapping[str, str]:
        if service == "v1alpha3":
            request = messages.NodeUnprepareResourcesRequest(claims=[self._claim(claim) for claim in claims])
            reply = await self._unary(
                service, "NodeUnprepareResources", request, messages.NodeUnprepareResourcesResponse
            )
            return {uid: answer.error for uid, answer in reply.claims.items()}
        for claim in claims:
            await self._unprepare_one(service, claim)
        return dict.fromkeys((claim.uid for claim in claims), "")

    async def _unprepare_one(self, service: str, claim: ClaimReference) -> None:
        handle = self._handles[claim.uid]
        request: Any
        if service == "v1alpha1":
            request = messages.NodeUnprepareResourceRequestV1alpha1(
                namespace=claim.namespace,
                claim_uid=claim.uid,
                claim_name=claim.name,
                cdi_devices=self._devices.get(claim.uid, ()),
            )
        else:
            request = messages.NodeUnprepareResourceRequest(
                namespace=claim.namespace,
                claim_uid=claim.uid,
                claim_name=claim.name,
                resource_handle=handle.data,
                structured_resource_handle=handle.structured_messages(),
            )
        await self._unary(service, "NodeUnprepareResource", request, messages.NodeUnprepareResourceResponse)

    def _claim(self, claim: ClaimReference) -> messages.Claim:
        handle = self._handles[claim.uid]
        return messages.Claim(
            namespace=claim.namespace,
            uid=claim.uid,
            name=claim.name,
            resource_handle=handle.data,
            structured_resource_handle=handle.structured_messages(),
        )

    async def _unary(self, service: str, method: str, request: Any, answer: type[Any]) -> Any:
        path = f"/{service}.Node/{method}"
        call = self._channel.unary_unary(
            path, request_serializer=type(request).SerializeToString, response_deserializer=answer.FromString
        )
        return await self._call(path, call, request)


def _outcome(cdi_devices: Sequence[str], error: str) -> PrepareOutcome:
    if error:
        return PrepareOutcome(error=error)
    return PrepareOutcome((PluginDevice(pool="", device="", cdi_device_ids=tuple(cdi_devices)),))


def classic_dial(api: Client, gates: FeatureGates, node: str) -> MakeDial:
    """Return the function by which the agent of ``node`` connects to drivers. ``api`` reads claims as the node."""

    def make(clock: Clock, metrics: NodeMetrics) -> DialPlugin:
        return ClassicDial(api, gates, node, clock, metrics)

    return make


class ClassicDial:
    """Connects to drivers; in 1.30 it also keeps the node's slices."""

    def __init__(self, api: Client, gates: FeatureGates, node: str, clock: Clock, metrics: NodeMetrics) -> None:
        self._api = api
        self._gates = gates
        self._clock = clock
        self._metrics = metrics
        self._versions = RegisteredVersions(gates)
        self._slices = NodeSlices(api, node, clock=clock) if gates.has(classic.KUBELET_PUBLISHES_SLICES) else None

    def __call__(
        self, driver: str, endpoint: str, offered: tuple[str, ...]
    ) -> tuple[ConnectedPlugin, HealthClient | None]:
        """Register a driver, and return the client of its plugin at ``endpoint``. There is no health client.

        Raises:
            RegistrationError: it does not offer a version of that time, or is registered already.
        """
        self._versions.enter(driver, endpoint, offered)
        clock = self._clock
        listing = ResourceListing(self._slices, driver, clock=clock) if self._slices is not None else None
        agent = AgentContext(self._api, services_of(self._gates), clock, self._metrics)
        client = ClassicPluginClient(
            driver, endpoint, agent, listing=listing, on_close=lambda: self._versions.leave(driver)
        )
        return client, None

    async def run(self) -> None:
        """Keep the node's slices, where kubelets of the release do, until cancelled."""
        if self._slices is not None:
            await self._slices.run()


@dataclass(frozen=True, slots=True)
class Handle:
    """The data that one driver receives about one claim."""

    data: str = ""
    structured: v1alpha2.StructuredResourceHandle | None = None
    """In 1.30, where the scheduler allocated instead of the driver's controller."""

    def structured_messages(self) -> list[Any]:
        """Return the structured handle as the protocol has it: none or one."""
        handle = self.structured
        if handle is None:
            return []
        return [
            messages.StructuredResourceHandle(
                vendor_class_parameters=_raw(handle.vendor_class_parameters),
                vendor_claim_parameters=_raw(handle.vendor_claim_parameters),
                node_name=handle.node_name,
                results=[
                    messages.DriverAllocationResult(
                        vendor_request_parameters=_raw(result.vendor_request_parameters),
                        allocation_result_model=messages.AllocationResultModel(
                            named_resources=messages.NamedResourcesAllocationResult(name=result.named_resources.name)
                            if result.named_resources is not None
                            else None
                        ),
                    )
                    for result in handle.results
                ],
            )
        ]


def _raw(value: RawJSON | None) -> Any:
    return messages.RawExtension(raw=value.data) if value is not None else None


def handle_of(claim: v1alpha2.ResourceClaim, driver: str) -> Handle:
    """Return the data for ``driver`` about an allocated claim. It is empty if the allocation has no handle for the
    driver."""
    allocation = claim.status.allocation
    handles = allocation.resource_handles if allocation is not None else ()
    for handle in handles:
        if (handle.driver_name or claim.status.driver_name) == driver:
            return Handle(handle.data, handle.structured_data)
    return Handle()


# Versions with which drivers registered until 1.31, and the errors of kubelets for others.
#
# A driver offered numbers, not services: the highest one below 2 counted. One instance of a driver was registered at a
# time, unless another came with a higher number.
# Source: ``pkg/kubelet/cm/dra/plugin/registration.go`` of Kubernetes 1.26 to 1.31.

Version = tuple[int, ...]
_GENERIC: Final = re.compile(r"\s*v?([0-9]+(?:\.[0-9]+)*)", re.ASCII)


class UnsupportedVersions(ValueError):
    """None of the versions that a driver offers is known."""


def highest_version(offered: Sequence[str]) -> Version:
    """Return the highest version below 2.

    Raises:
        UnsupportedVersions: there is none, or it is below 1.
    """
    highest: Version = ()
    problem = "<nil>"
    for text in reversed(offered):
        try:
            version = _parsed(text)
        except UnsupportedVersions as error:
            problem = str(error)
            continue
        if version[0] <= 1 and _is_below(highest, version):
            highest = version
    if not highest:
        raise UnsupportedVersions(
            f"could not find a highest supported version from versions ([{' '.join(offered)}]) "
            f"reported by this plugin: {problem}"
        )
    if highest[0] != 1:
        raise UnsupportedVersions(f"highest supported version reported by plugin is {_shown(highest)}, must be v1.x")
    return highest


def _parsed(text: str) -> Version:
    match = _GENERIC.match(text)
    if match is None:
        raise UnsupportedVersions(f"could not parse {go_quote(text)} as version")
    parts = match[1].split(".")
    if len(parts) < 2:
        raise UnsupportedVersions(f"illegal version string {go_quote(text)}")
    if parts[0] != "0" and parts[0].startswith("0"):
        raise UnsupportedVersions(f"illegal zero-prefixed version component {go_quote(parts[0])} in {go_quote(text)}")
    return tuple(map(int, parts))


def _is_below(one: Version, other: Version) -> bool:
    pairs = tuple(zip_longest(one, other, fillvalue=0))
    return not one or [left for left, _ in pairs] < [right for _, right in pairs]


def _shown(version: Version) -> str:
    return ".".join(map(str, version))


class RegisteredVersions:
    """The drivers that are registered with a node, each with its version."""

    def __init__(self, gates: FeatureGates) -> None:
        self._names_step = gates.has(classic.REGISTRATION_ERRORS_NAME_STEP)
        self._versions: dict[str, Version] = {}

    def enter(self, driver: str, endpoint: str, offered: Sequence[str]) -> None:
        """Let an instance of a driver in.

        Raises:
            RegistrationError: its versions are not known, or another instance is registered with as high a one.
        """
        version = self._version(driver, endpoint, offered)
        known = self._versions.get(driver, ())
        if not _is_below(known, version):
            quoted = go_quote(_shown(known))
            raise self._refusal(
                driver,
                endpoint,
                f"Another plugin with the same name is already registered with a higher supported version: {quoted}",
                "another plugin with the same name is already registered with a higher supported version: "
                f"{go_quote(_shown(version))} < {quoted}",
            )
        self._versions[driver] = version

    def leave(self, driver: str) -> None:
        """Note that the driver is not registered any more."""
        self._versions.pop(driver, None)

    def _version(self, driver: str, endpoint: str, offered: Sequence[str]) -> Version:
        if not offered:
            empty = "empty list for supported versions"
            raise self._refusal(driver, endpoint, f"Plugin returned an {empty}", empty)
        try:
            return highest_version(offered)
        except UnsupportedVersions as error:
            quoted = f"[{' '.join(map(go_quote, offered))}]"
            text = f"one of the versions specified {quoted} are supported"
            raise self._refusal(driver, endpoint, f"N{text}. err={error}", f"n{text}: {error}") from error

    def _refusal(self, driver: str, endpoint: str, text: str, later: str) -> RegistrationError:
        """Return the error of a refused registration in the words of releases until 1.30, or in those of 1.31."""
        name = go_quote(driver)
        if self._names_step:
            step = f"kubernetes.io/dra: ValidatePlugin for DRA plugin {name} failed. {text}"
            return RegistrationError(f"validation failed for DRA plugin {driver} at endpoint {endpoint}: {step}")
        return RegistrationError(f"validating DRA plugin {name}: {later}")
