"""The example driver: devices that do not exist and behave, as far as Kubernetes can see, as real ones do.

What the devices are is a `profile`: `gpu` (whole, in equal parts, in shares), `mig` (parts as data centre GPUs have
them), `net`, `cpu` and `e2e`; `profiles` makes one by its name. `driver` does with any profile what a driver has to do,
`binding` satisfies binding conditions, and `controls` takes orders while it runs: taints, health, faults
(docs/spec/driver-sdk.md §17 and §18).
"""
