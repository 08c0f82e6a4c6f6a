"""Drawn radiographs and their reports in MIMIC's layout: open data for trying everything."""
