"""Push models and datasets to the Hub. Start with `push.py`, then `model_folder.py`."""
