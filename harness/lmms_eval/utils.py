"""The functions named in the YAML files. They call `medvqa_hub.evaluation.harness_tasks`."""

from functools import partial

import mimic_cxr_vqa  # noqa: F401 - registers the builder that dataset_path names
import rjua_meddqa  # noqa: F401
from medvqa_hub.evaluation import harness_tasks as tasks


def cxr_process_docs(dataset):
    return tasks.cxr_documents(dataset)


def cxr_doc_to_visual(doc):
    return tasks.cxr_images(doc)


def cxr_doc_to_text(doc, lmms_eval_specific_kwargs=None):
    return tasks.cxr_text(doc)


def cxr_doc_to_messages(doc, lmms_eval_specific_kwargs=None):
    return tasks.cxr_messages(doc)


def cxr_process_results(doc, results):
    return tasks.cxr_record(doc, results)


def meddqa_process_docs(dataset):
    return tasks.number_rows(dataset)


def meddqa_doc_to_visual(doc):
    return tasks.meddqa_images(doc)


def meddqa_doc_to_text(doc, lmms_eval_specific_kwargs=None):
    return tasks.meddqa_text(doc)


def meddqa_doc_to_messages(doc, lmms_eval_specific_kwargs=None):
    return tasks.meddqa_messages(doc)


def meddqa_process_results(doc, results):
    return tasks.meddqa_record(doc, results)


# One function per metric: cxr_bleu_1(records), …, meddqa_entity_accuracy(records), …
for _name in tasks.CXR_MEASURES:
    globals()[f"cxr_{_name}"] = partial(tasks.cxr_measure, name=_name)
for _name in tasks.MEDDQA_MEASURES:
    globals()[f"meddqa_{_name}"] = partial(tasks.meddqa_measure, name=_name)
