"""Synthetic radiographs and reports in MIMIC's layout, as open data."""
