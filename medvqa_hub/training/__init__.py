"""Training: our models by transformers' Trainer, and any image-text model by TRL."""

import logging

logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # it warns whenever it is imported
