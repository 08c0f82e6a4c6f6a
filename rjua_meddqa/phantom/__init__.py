"""Synthetic Chinese medical reports with exact annotations, as open data for tests and demos."""
