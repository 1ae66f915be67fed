"""What ``kubectl get`` prints: columns and cells of each kind's server-side table (spec: apimachinery.md, section 10).

`ages` writes durations as kubectl does; `core`, `workloads`, `devices` and `machinery` hold the kinds. A cell function
takes an object and the time now (epoch seconds) and answers the cells in order of the columns.
"""
