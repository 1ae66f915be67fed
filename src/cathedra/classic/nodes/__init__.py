"""The kubelet's protocol of 1.26 to 1.30, both sides: `client` calls drivers from the node, `plugin` serves a driver.

What is prepared is a resource handle, data that the driver's controller put into the claim for its node plugin
(docs/spec/protocols.md §6).
"""
