"""Having the images of a pod's containers there before they start, where the runtime has images.

`names` is how images are called, `logins` who may have them from which registry, and `puller` pulls them as their
policy says.
"""
