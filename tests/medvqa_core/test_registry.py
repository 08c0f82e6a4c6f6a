"""Every registry names its objects by the same kind of text, and a wrong text is named in the error."""

import pytest

from medvqa_core.llm.engines import Engine
from medvqa_core.registry import load_entry
from medvqa_hub.evaluation.cxr.layouts.layout import Layout
from medvqa_hub.evaluation.cxr.layouts.registry import LAYOUTS
from medvqa_hub.families.registry import FAMILIES, ModelFamily
from mimic_cxr_vqa.generation import engines as study_engines
from mimic_cxr_vqa.judging.judges import JUDGES
from rjua_meddqa.inference import engines as document_engines


def test_entries_are_made_without_arguments_and_have_their_interface():
    assert {load_entry(place)().name for place in FAMILIES.values()} == FAMILIES.keys()
    assert all(isinstance(load_entry(place)(), ModelFamily) for place in FAMILIES.values())
    assert all(isinstance(load_entry(place), type) for place in JUDGES.values())
    assert all(isinstance(load_entry(place), Layout) for place in LAYOUTS.values())
    assert all(isinstance(load_entry(place)(), Engine) for place in study_engines.ENGINES.values())
    for name, place in document_engines.ENGINES.items():
        engine = load_entry(place)()
        assert isinstance(engine, document_engines.DocumentEngine) and engine.name == name


@pytest.mark.parametrize("place", ["medvqa_core.registry:absent", "medvqa_core.registry", "medvqa_core.absent:x"])
def test_a_wrong_entry_is_named(place):
    with pytest.raises(ImportError, match="medvqa_core.(registry|absent)"):
        load_entry(place)
