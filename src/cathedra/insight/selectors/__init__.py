"""Selectors read as logic: what they look at, what they make sure of, and whether they can be true.

`conjuncts` takes the conditions of an ``&&`` apart, `reads` finds the attributes and capacities that an expression
reads, `facts` what holds where it is true, `guards` which reads may fail, and `contradictions` which conditions exclude
each other: all from the checked tree of `cathedra.cel`, without evaluating it. `devices` asks the devices at hand.
"""
