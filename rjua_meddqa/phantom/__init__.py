"""Synthetic Chinese medical reports with exact annotation: open data for trying everything."""
