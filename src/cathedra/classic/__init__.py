"""Classic Dynamic Resource Allocation, as Kubernetes had it from 1.26 to 1.31: drivers allocate, schedulers ask them.

A wing of its own: the kinds of resource.k8s.io in v1alpha1 and v1alpha2 (`kinds`), how they are reached (`resources`),
the scheduler's plugin that negotiates with drivers (`scheduling`), the controller that makes and frees claims
(`controllers`), the library for drivers' controllers (`controller`), the node's and the driver's side of the kubelet's
protocol of that time (`nodes`), and the driver that the tests of those releases used (`testdriver`). 1.31, which had
today's device model besides, is in `controlplane`. `cluster` composes the parts when a release of that time is asked
for; no other room knows of them.
"""
