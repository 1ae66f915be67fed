"""Conformance tests of a driver: a simulated kubelet tests any running driver, in whatever language it is written.

While `cathedra.driver.kit` calls the class `Driver` of this project in process, this package tests a program: on its
sockets, with claims on an API server, and through kills and restarts. `plugin` is the kubelet's side of the sockets,
`program` the driver's process and the API server, `claims` the allocated claims that are passed to the driver, `bench`
all of that for one check, `checks` the checks, and `check` runs and reports them.

docs/spec/driver-sdk.md §1, §5 and §7, docs/spec/protocols.md §3 to §7.
"""
