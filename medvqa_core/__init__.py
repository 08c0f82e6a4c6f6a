"""Code that the datasets and the commands share: errors, governance, files, stores, engines and metrics.

Importing it does not import torch, transformers or datasets.
"""
