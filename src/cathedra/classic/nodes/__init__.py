"""The kubelet's protocol of 1.26 to 1.30, both sides: `client` calls drivers from the node, `plugin` serves a driver.

A driver prepares a resource handle, which is data that its controller wrote into the claim for the node plugin
(docs/spec/protocols.md §6).
"""
