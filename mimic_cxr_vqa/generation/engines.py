"""The registry of bundled engines that do not need a language model."""

# Name -> module and class, an `Engine` that is made without arguments.
ENGINES = {"extractive": "mimic_cxr_vqa.generation.extractive:ExtractiveEngine"}
