"""The Pod Security Standards (plugin PodSecurity), which the labels of a namespace choose for its pods.

`violations` has the terms of a check, `baseline` and `restricted` the checks of the two levels, and `enforcement` the
plugin, with the levels of a namespace and the checks of each version.
"""
