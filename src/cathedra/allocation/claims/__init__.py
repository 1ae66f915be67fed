"""Requests of a pod's claims, in the order in which data flows.

* `requests` – the claims, parsed into plans;
* `problem` – the same on one node;
* `tables` – the devices that pass the tests which no placement can change, and the cache of both for claims with the
  same specs;
* `result` – the solution as an AllocationResult.
"""
