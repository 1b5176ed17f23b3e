"""A package with the name of the Python client of a chip's SDE."""
