"""Pushing to the Hub: what may go, in which order, with which card. Start with `push.py`, then `model_folder.py`."""
