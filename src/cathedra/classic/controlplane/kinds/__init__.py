"""The kinds of resource.k8s.io/v1alpha3 as 1.31 had them.

`types` are today's structs with what a controller in the control plane needs besides, `conversion` leads from and to
v1alpha3, `claims` and `classes` are the rules, `definitions` gathers all kinds of the release.
"""
