"""The driver with which Kubernetes tested Dynamic Resource Allocation from 1.26 to 1.30, as two programs.

A controller counts claims and passes on parameters from ConfigMaps (`controller`), and a node plugin turns them into
environment variables (`nodeplugin`). The resources themselves do nothing.
"""
