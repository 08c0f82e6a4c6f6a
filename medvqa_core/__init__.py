"""Ground floor shared by the datasets and the front door: errors, governance, files, the append-only store.

Light on purpose: nothing here imports torch, transformers or datasets when it is imported.
"""
