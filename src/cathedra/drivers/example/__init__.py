"""The example driver: simulated devices that behave, as far as Kubernetes can see, as real ones do.

A `profile` defines the devices: `gpu` (whole, partitioned, shared), `mig` (partitions as data centre GPUs have them),
`net`, `cpu` and `e2e`; `profiles` selects one by name. `driver` implements the SDK's driver for any profile, with
binding conditions; `controls` injects taints, health and faults while it runs, and `recording` records calls
(docs/spec/driver-sdk.md §17 and §18).
"""
