"""`medvqa-hub demo`: the whole story on bundled and synthetic data."""
