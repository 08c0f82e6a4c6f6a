"""The error that a dataset builder raises. `datasets` would wrap any other class and hide its message."""

from datasets.exceptions import DatasetGenerationError

from medvqa_core.errors import MedvqaError


class LoadingError(MedvqaError, DatasetGenerationError):
    """An error of this project raised inside `load_dataset`."""
