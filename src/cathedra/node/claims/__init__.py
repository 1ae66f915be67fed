"""Claims on this node: prepared before a pod's containers, remembered, let go after them.

`resolve` finds a pod's claims and checks that it may use them, `claiminfo` remembers what is prepared, `checkpoint`
keeps that across restarts, `manager` calls the drivers, `devices` says which CDI devices a container gets.
"""
