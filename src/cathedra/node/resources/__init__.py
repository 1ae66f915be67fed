"""How much of the node pods get, and who holds them to it.

In the order of their use: `nodefacts` (what there is), `pods` and `containers` (what a pod as a whole, and each of its
containers, may use, with what claims add), `cgroups` (the pods' part of that, told to the kernel), `resizing` (whether
a pod that runs may have more or less).
"""
