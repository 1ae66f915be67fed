"""What the functions do. `registry` knows all of them by name and overload; each other module is one library.

A function takes values and returns a value or a `Failure`; it never raises for what a user wrote.
"""
