"""The functions: the signature, the implementation and the cost of each.

An `overload.Overload` is one way to call a function; its `costs` are counted at run time, and estimated beforehand by
the formulas of `estimates`. `standard` has the language itself (`operators`, `conversions`, `times`); each other module
is one of Kubernetes' libraries, with a table of overloads at its end. `registry` knows all of them by name, and chooses
among them where only values can.

A function takes values and returns a value or a `Failure`; it never raises for what a user wrote.
"""
