"""Every private name of JAX that jaxina uses; nothing outside this folder uses one.

A JAX that lacks one fails to import the module here that needs it, by an ImportError that names it. `jaxina._seat` turns
that into a warning.
"""
