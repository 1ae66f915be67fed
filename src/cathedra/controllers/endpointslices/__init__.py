"""Endpoint slices of services with selectors: which pods are behind a service, and whether they are ready.

`endpoints` turns a pod into an endpoint, `distribution` spreads endpoints over slices with as few changes as possible,
`triggertimes` says since when the answer has been another one, and `controller` writes what has changed.
"""
