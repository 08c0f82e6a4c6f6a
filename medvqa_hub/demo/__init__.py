"""`medvqa-hub demo` runs the README's commands on synthetic data."""
