"""Definitions of custom resources, put into force in a running server.

`served` adds a kind to what is served and takes it away again. `controller` decides which: it accepts names, writes
conditions, and deletes the instances of a definition that goes. On a replica all that is the primary's, and `follower`
serves what the primary has established.
"""

from cathedra.apiserver.customresources.controller import DefinitionController
from cathedra.apiserver.customresources.follower import DefinitionFollower
from cathedra.apiserver.customresources.served import ServedDefinitions

__all__ = ["DefinitionController", "DefinitionFollower", "ServedDefinitions"]
