"""The kinds of resource.k8s.io/v1alpha3 as 1.31 had them.

`types` are today's structs with what a controller in the control plane needs besides, `classes` has the rules of
classes, and `definitions` those of claims, the conversion from and to v1alpha3, and all kinds of the release.
"""
