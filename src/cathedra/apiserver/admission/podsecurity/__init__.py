"""The Pod Security Standards (plugin PodSecurity): what the labels of a namespace let pods be.

`violations` has the terms of a check, `baseline` and `restricted` the checks of the two levels, `evaluation` the levels
that labels ask for and the checks of each version, `enforcement` the plugin.
"""
