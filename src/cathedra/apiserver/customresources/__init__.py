"""Definitions of custom resources, put into force in a running server.

`served` adds a kind to the kinds that are served, and removes it. `controller` accepts names, writes conditions, and
deletes the instances of a definition that is deleted. Servers that share a store each have one.
"""

from cathedra.apiserver.customresources.controller import DefinitionController
from cathedra.apiserver.customresources.served import ServedDefinitions

__all__ = ["DefinitionController", "ServedDefinitions"]
