"""Classic Dynamic Resource Allocation of Kubernetes 1.26 to 1.31: drivers allocate, and schedulers negotiate with them.

In the order of a claim: the kinds of resource.k8s.io in v1alpha1 and v1alpha2 (`kinds`) and their client (`resources`),
the controller that creates and frees claims (`claimcontroller`), the scheduler's plugin (`scheduling`), the library for
drivers' controllers (`controller`), both sides of the kubelet's protocol of that time (`nodes`), the structured
parameters of 1.30 (`structured`), and the driver that Kubernetes' own tests used (`testdriver`). `controlplane` has
1.31, which also had today's device model. Only `cluster` imports this package, to compose the parts of such a release.
"""
