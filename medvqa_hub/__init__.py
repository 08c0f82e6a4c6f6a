"""The front door: the command line, the demo, and what joins datasets with models."""
