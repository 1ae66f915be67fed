"""The DynamicResources plugin: claims of pods get their devices.

`claim_cache` knows every claim, with the scheduler's own writes before the informer has them; `resolving` finds a pod's
claims; `devices` keeps what drivers publish and what claims hold; `hints` wakes pods; `plugin` answers at the extension
points, with `cycle` as its memory and `scoring` as its preference; `binding` and `writing` put decisions into the API;
`binding_conditions` says when devices are attached; `node_allocatable` counts devices that are part of their node;
`extended_resources` turns requests for extended resources into a claim (docs/spec/scheduling.md §2 to §14).
"""
