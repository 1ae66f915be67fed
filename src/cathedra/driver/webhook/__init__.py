"""A validating webhook for a driver's opaque parameters: claims that could never be prepared are refused early.

`review` judges one request, `application` is what the API server calls, `registration` tells the API server to, and
`serving` runs all of it (docs/spec/driver-sdk.md §17.6).
"""
