"""Controllers and the default roles of their accounts.

`play` runs every controller of this package's tests with the account that it has in a cluster. Here the table of all
their calls is compared with the roles, and with the calls that the sources contain.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import cathedra.controllers
from cathedra.apiserver.authorization.authorizer import Attributes
from cathedra.client.transport import ResourceRef
from cathedra.clock import run_virtual
from cathedra.cluster.identity.permissions import controller_user
from cathedra.controllers.controller_manager import CONTROLLERS, account_of
from cathedra.releases import FeatureGates
from tests.unit.controllers.calls import CALLS, RecordedCall
from tests.unit.controllers.world import open_server

SOURCES = Path(cathedra.controllers.__file__).parent
OBJECTS = {
    "bootstrap-signer-controller": ("kube-public", "cluster-info"),
    "token-cleaner-controller": ("kube-system", "bootstrap-token-abcdef"),
}
"""Namespace and name of an object of the controllers that have their rights in one namespace alone."""
GATED = (
    "DRAWorkloadResourceClaims",
    "GenericWorkload",
    "WorkloadWithJob",
    "CompositePodGroup",
    "DRADeviceTaintRules",
    "DRAResourcePoolStatus",
)
VERBS = {"update_status": "update", "apply": "patch", "delete_collection": "deletecollection"} | {
    verb: verb for verb in ("create", "update", "patch", "delete", "get", "list")
}


def test_every_controller_has_its_calls_listed() -> None:
    assert set(CALLS) == set(CONTROLLERS)
    assert all(CALLS.values())


def test_every_call_of_a_controller_is_allowed_by_its_default_role() -> None:
    async def main() -> list[str]:
        server = await open_server(FeatureGates.for_release(overrides=dict.fromkeys(GATED, True)))
        refused = []
        for controller, calls in CALLS.items():
            user = server.transport_of(controller_user(account_of(controller))).user
            namespace, name = OBJECTS.get(controller, ("default", "a"))
            for call in map(RecordedCall.parse, sorted(calls)):
                group, resource = ("example.com", "widgets") if call.resource == "*" else (call.group, call.resource)
                asked = Attributes(user, call.verb, group, "v1", resource, call.subresource, namespace, name)
                if not server.context.authorizer.authorize(asked).allowed:
                    refused.append(f"{controller}: {call}")
        await server.close()
        return refused

    assert run_virtual(main()) == []


def test_every_call_in_the_sources_is_listed() -> None:
    """A call on a new path is found here also before a test takes that path."""
    listed = {(call.verb, call.resource) for calls in CALLS.values() for call in map(RecordedCall.parse, calls)}
    unlisted = [
        f"{path.relative_to(SOURCES)}: {verb} {resource}"
        for path in sorted(SOURCES.rglob("*.py"))
        for verb, resource in _calls_in(path)
        if not {(verb, resource), (verb, "*")} & listed
    ]
    assert unlisted == []


def _calls_in(path: Path) -> Iterator[tuple[str, str]]:
    """Yield verb and resource of the calls on clients in a module; references that vary are left to `play`."""
    module = importlib.import_module(
        ".".join(("cathedra.controllers", *path.relative_to(SOURCES).with_suffix("").parts))
    )
    for function in ast.walk(ast.parse(path.read_text())):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        clients = {
            ast.unparse(node.targets[0]): reference
            for node in ast.walk(function)
            if isinstance(node, ast.Assign) and (reference := _reference(node.value)) is not None
        }
        for node in ast.walk(function):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in VERBS):
                continue
            name = _reference(node.func.value) or clients.get(ast.unparse(node.func.value))
            reference = getattr(module, name, None) if name is not None else None
            if isinstance(reference, ResourceRef):
                yield VERBS[node.func.attr], reference.resource


def _reference(node: ast.expr) -> str | None:
    """Return the name of the resource of ``client.resource(NAME, …)``."""
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "resource"
    return ast.unparse(node.args[0]) if called and isinstance(node, ast.Call) else None
