"""Makes `load_dataset("mimic_cxr_vqa")` find a builder that is installed as a Python package.

`datasets.load.dataset_module_factory` is wrapped: registered names return our builder module, without a network, and
other names are passed on. Registering a name also installs the guards of `upload_guards.py`. Libraries are wrapped when
they are imported (wrapt's post-import hooks), so registering imports nothing.
"""

import wrapt

from medvqa_core import upload_guards

_BUILDERS: dict[str, tuple[str, str]] = {}  # dataset name -> (builder module, version)


def register_builder(name: str, module: str, version: str) -> None:
    """Make `load_dataset(name)` use the `DatasetBuilder` class that `module` defines.

    Args:
        version: part of the cache folder's name. A new version makes `datasets` prepare the dataset again.
    """
    if not _BUILDERS:
        for importer in ("datasets.load", "datasets.inspect"):  # both have the function
            wrapt.register_post_import_hook(_wrap_factory, importer)
        upload_guards.install()
    _BUILDERS[name] = (module, version)


def _wrap_factory(importer) -> None:
    factory = importer.dataset_module_factory  # AttributeError: datasets has moved it
    if isinstance(factory, wrapt.FunctionWrapper):
        return

    @wrapt.decorator
    def find_registered(wrapped, _instance, args, kwargs):
        path = args[0] if args else kwargs.get("path")
        if path not in _BUILDERS:
            return wrapped(*args, **kwargs)
        from datasets.load import DatasetModule

        module, version = _BUILDERS[path]
        return DatasetModule(module, version, {"dataset_name": path})

    importer.dataset_module_factory = find_registered(factory)
