"""The rules: what an object must be like, found out as field errors in Kubernetes' order.

`formats` holds the forms of names and values, `metadata` and `conditions` what many kinds share; `resource` the rules
of the device kinds, `pods` those of pods and templates; the other modules those of one family of kinds each, as
functions that add to an `ErrorList`. They know nothing of requests or storage.
"""
