"""Two explorers that save into one folder: neither takes away what the other saved."""

from dataclasses import replace

import pytest
from meddqa_data import BLOOD, SCAN

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from medvqa_hub.explore.corrections import Corrections, read_correction
from rjua_meddqa.data_folder import ANNOTATIONS, open_folder
from rjua_meddqa.released import read_annotations


def saved_in(folder):
    return {row.img_path: row.report_type for row in read_annotations(open_folder(folder).file(ANNOTATIONS))}


def test_what_another_explorer_saved_meanwhile_is_kept(tmp_path):
    one, two = (Corrections(tmp_path / "out", Governance.OPEN) for _ in range(2))
    one.save(BLOOD)
    two.save(replace(SCAN, extra={"note": "a\r\nb"}))  # a column that the others have empty from now on
    one.save(replace(BLOOD, report_type="mine"))
    assert saved_in(tmp_path / "out") == {BLOOD.img_path: "mine", SCAN.img_path: SCAN.report_type}


def test_a_report_that_another_explorer_saved_is_not_overwritten_unseen(tmp_path):
    one, two = (Corrections(tmp_path / "out", Governance.OPEN) for _ in range(2))
    one.save(BLOOD)
    with pytest.raises(InputError, match="Load the page again"):
        two.save(replace(BLOOD, report_type="other"))
    assert saved_in(tmp_path / "out") == {BLOOD.img_path: BLOOD.report_type}
    assert two.find(BLOOD.img_path).report_type == BLOOD.report_type  # what the page now shows
    two.save(replace(BLOOD, report_type="other"))
    assert saved_in(tmp_path / "out") == {BLOOD.img_path: "other"}


@pytest.mark.parametrize(
    "key_values",
    [[["name", "\ud83d"]], [[f"key {n}", "字" * 10_000] for n in range(20)]],
    ids=["surrogate", "too large"],
)
def test_a_text_that_cannot_be_read_again_is_refused_before_it_is_written(key_values, tmp_path):
    given = {
        "key_values": key_values, "table": [], "report_type": "a", "image_type": BLOOD.image_type,
        "image_quality": BLOOD.image_quality,
    }  # fmt: skip
    with pytest.raises(InputError, match="cannot be saved|KiB"):
        read_correction(given, BLOOD)
    accepted = read_correction(given | {"key_values": key_values[:1] if len(key_values) > 1 else [["名", "😀"]]}, BLOOD)
    Corrections(tmp_path / "out", Governance.OPEN).save(accepted)
    assert len(Corrections(tmp_path / "out", Governance.OPEN)) == 1  # opens again
