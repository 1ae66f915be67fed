"""`lint`: mistakes in manifests that a server or a device would otherwise report later, or never.

`lint` reads the manifests and runs the checks: `objects` has the rules of the API server, `expressions` the analysis of
selectors, `claims` the references between pods and claims, `slices` the pools, and `devices` the tests of selectors on
the devices of a cluster. Checks add to `Findings` (`findings`), which drops what a comment suppresses. `report` has the
list of rules and the result as data, text and SARIF.
"""
