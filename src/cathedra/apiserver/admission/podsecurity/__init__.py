"""The Pod Security Standards (plugin PodSecurity): what the labels of a namespace let pods be.

`standards` are the levels that labels ask for, `violations` the words of a check, `baseline` and `restricted` the
checks of the two levels, `evaluation` which of them hold in which version, `enforcement` the plugin.
"""
