"""Static analysis of selectors, on the checked tree of `cathedra.cel`, without evaluating it.

`reads` finds the attributes and capacities that an expression reads, the facts that a true condition establishes, and
the reads that no condition guards, and conditions that exclude each other. `devices` compares selectors with the
devices of a state.
"""
