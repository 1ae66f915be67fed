"""The driver with which Kubernetes tested Dynamic Resource Allocation from 1.26 to 1.30, as two programs.

Its resources do nothing: a controller counts them (`controller`) and hands parameters from ConfigMaps on, a node
plugin turns those into environment variables (`nodeplugin`). `programs` runs either until it is told to stop.
"""
