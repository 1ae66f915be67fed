"""Additions of 1.31: claims that a controller in the control plane allocates, beside those of the scheduler.

That release introduced today's device model and still had the negotiation, behind the gate DRAControlPlaneController.
The parts are today's, with what the gate adds: `kinds` (claims, classes and scheduling contexts, also in v1alpha3),
`plugin` (for the scheduler), `claimcontroller` (for the controller manager), `controller` (the library for drivers,
with their client) and `testcontroller` (the driver that Kubernetes' own tests used).

Spec: docs/spec/api.md §7.4; docs/spec/scheduling.md §18.
"""
