"""``KubeSchedulerConfiguration``: decoded strictly, validated as by kube-scheduler, and turned into profiles.

`document` defines the form of the file, `reading` decodes a text, `validation` checks it, and `enablement` computes the
plugins of a profile at each extension point.
"""
