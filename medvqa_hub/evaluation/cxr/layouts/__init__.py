"""Public datasets in their published layout, from a folder that the user has, as studies that `evaluate cxr` asks."""
