"""Does a driver keep the contract? A kubelet played against any running driver, in whatever language it is written.

Where `cathedra.driver.kit` asks the class `Driver` of this project in process, this asks a program: on its sockets,
with claims on an API server, and through kills and restarts of the program. `plugin` is the kubelet's side of sockets,
`program` the driver's process, `claims` the allocated claims that a driver is told of, `bench` all of that for one
check, `checks` what is asked, `examination` the order of events, `report` the verdicts for people and for CI.

docs/spec/driver-sdk.md §1, §5 and §7, docs/spec/protocols.md §3 to §7.
"""
