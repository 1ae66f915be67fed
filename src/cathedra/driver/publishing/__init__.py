"""Devices on their way into the cluster: from pools to ResourceSlices, and what keeps them there.

In the order of data flow: `layout` (pools → slices within the API's limits, checked), `plan` (what must change so
that the cluster shows exactly these slices), `controller` (does it, watches, repairs),
`republishing` (asks the driver again).
"""
