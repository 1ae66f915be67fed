"""Publishing devices: from pools to ResourceSlices.

`layout` divides pools into slices within the API's limits and plans the writes; `controller` executes them, watches the
slices, repairs them, and publishes again when the driver's devices change.
"""
