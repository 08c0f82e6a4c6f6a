"""The governance class of a model folder, and of those that were written before Open-i had a class of its own."""

import json

import pytest

from medvqa_core.folder_class import GOVERNANCE, read_governance, write_governance
from medvqa_core.governance import Governance


@pytest.mark.parametrize("governance", Governance)
def test_the_class_that_is_written_is_read(governance, tmp_path):
    write_governance(tmp_path, governance)
    assert read_governance(tmp_path) is governance


@pytest.mark.parametrize(
    ("written", "read"),
    [("open", "open"), ("share-alike", "no-derivatives"), ("credentialed", "credentialed")],
)
def test_folders_from_before_learned_from_open_i_where_they_say_share_alike(written, read, tmp_path):
    (tmp_path / GOVERNANCE).write_text(json.dumps({"governance": written}))
    assert str(read_governance(tmp_path)) == read


def test_a_folder_that_does_not_say_is_credentialed(tmp_path):
    assert read_governance(tmp_path) is Governance.CREDENTIALED
