"""All uses of JAX's private names. Nothing outside this folder uses one.

If a version of JAX lacks such a name, the module here that needs it fails to import, with an ImportError that names it.
`jaxina._override` turns that into a warning.
"""
