"""Evaluation: predictions first, then tables from them."""
