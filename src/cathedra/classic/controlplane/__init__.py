"""What 1.31 had of its own: claims that a controller in the control plane allocates, beside those of the scheduler.

The device model of today was new in that release, and the negotiation of the years before was still there, behind the
gate DRAControlPlaneController. So the parts are today's, with what that gate added: `kinds` (claims, classes and
scheduling contexts in v1alpha3), `resources` (how parts reach them), `plugin` (the scheduler's), `claimcontroller`
(the controller manager's), `driver` and `controller` (the library for drivers), `testcontroller` and `testplugin` (the
driver that Kubernetes' own tests used). Spec: docs/spec/api.md §7.4; docs/spec/scheduling.md §18.
"""
