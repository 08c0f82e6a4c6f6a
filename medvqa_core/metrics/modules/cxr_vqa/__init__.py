"""The `evaluate` module cxr_vqa."""
