"""Pictures of devices and pages of reports, as SVG and HTML that need nothing else.

They are drawn from the answers as plain values, as the device map of the browser draws them, and by the same rules:
`devices` draws a device with its partitions to scale, in colours that everyone can distinguish. `pages` makes the page
of an explanation or a simulation.
"""
