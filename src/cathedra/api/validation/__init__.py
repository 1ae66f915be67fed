"""The rules: what an object must be like, found out as field errors in Kubernetes' order.

`formats` holds the forms of names and values; the modules beside it hold the rules of one kind of object each, as
functions that add to an `ErrorList`. They know nothing of requests or storage.
"""
