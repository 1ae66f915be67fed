"""The DynamicResources plugin, which allocates devices for the claims of pods.

`claims` has every claim, with the scheduler's own writes before the informer has them, and resolves the claims of a
pod. `devices` keeps the published devices and those that claims hold. `hints` wakes pods. `plugin` implements the
extension points; `cycle` is its state of one pod. `binding` and `writing` write decisions to the API and wait until
devices are attached. `node_allocatable` counts devices that are part of their node, also as 1.36 did.
`extended_resources` turns requests for extended resources into a claim (docs/spec/scheduling.md §2 to §14).
"""
