"""Real data sets that PyPI packages ship, read straight from the packages' archives."""
