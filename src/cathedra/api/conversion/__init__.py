"""From one API version to another: old versions convert at the edge, inside there is only the hub version.

`resource_v1beta1` is the one version of DRA's device model whose shape differs (spec: api.md, section 5); v1beta2 and
v1alpha3 share the structs of v1.
"""
