"""Real data sets that PyPI packages ship. They are read straight from the packages' archives."""
