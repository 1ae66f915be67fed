"""``KubeSchedulerConfiguration``: read strictly, checked as kube-scheduler checks it, and turned into profiles.

`document` is the file's form, `reading` makes one of a text and says what is wrong with it, `enablement` says which
plugin takes part at which extension point of a profile.
"""
