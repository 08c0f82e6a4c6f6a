"""The audit tells scripted answerers apart, recovers the shares of mixtures, and is not deceived by hard cases."""

import pytest
from audit_dummies import Dummy
from builds import build_release

from medvqa_hub.evaluation.cxr.audit_boxes import open_boxes
from medvqa_hub.evaluation.cxr.audit_conditions import list_items
from medvqa_hub.evaluation.cxr.auditing import audit_source
from medvqa_hub.evaluation.cxr.evaluation_data import open_data
from medvqa_hub.evaluation.cxr.options import DataOptions

slow = pytest.mark.slow
SHARES = ("looking", "following_text", "guessing", "responding", "region")
# strategy -> looking and following the text with a stated indication, guessing, responding, region
ALONE = {
    "looker": (1, 0, 0, 1, 1),
    "prior_answer": (0, 0, 1, 0, 0),
    "text": (0, 1, 0, 0, 0),
    "wrong_region": (1, 0, 0, 1, -1),
    "reversed": (-1, 0, 0, 1, 1),
    "text_over_image": (0, 1, 0, 1, 1),
    "text_or_image": (0.5, 0.5, 0, 1, 1),
    "file_memory": (1, 0, 0, 1, 0),
    "patch_detector": (0, 0, 1, 0, 0),
    "view_reader": (0, 0, 1, 0, 0),
    "sharpness": (0, 0, 1, 0, 0),
    "gibberish": (0, 0, 1, 0, 0),
    "always_positive": (0, 0, 1, 0, 0),
}
FAST = ("text_over_image", "wrong_region", "view_reader")


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    """Audits of shares of strategies. The changed images are shared."""
    folder = tmp_path_factory.mktemp("audit")
    build = build_release(folder, studies=150, size=64)
    data = open_data(DataOptions(build.workspace.root, "train", image_root=build.tree))
    table, items = open_boxes(None, build.tree, data.studies), list_items(data.studies)

    def run(**shares):
        return audit_source(Dummy(items, table.boxes, shares), data, folder / "out", table, with_text=True)

    return run


def values(found):
    return [found[name]["value"] for name in SHARES]


@pytest.mark.parametrize("strategy", [name if name in FAST else pytest.param(name, marks=slow) for name in ALONE])
def test_answerers_are_told_apart(strategy, audit):
    found = audit(**{strategy: 1.0})
    assert values(found["shares"]) == pytest.approx(ALONE[strategy], abs=1e-9)
    assert found["shares"]["looking"]["studies"] > 60 and found["shares"]["region"]["rows"] > 50
    for parts in filter(None, found["parts"].values()):
        named = [part["value"] for name, part in parts.items() if name != "accuracy"]
        assert sum(named) == pytest.approx(parts["accuracy"]["value"])


@slow
@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
@pytest.mark.parametrize("other", ["prior_answer", "text", "wrong_region", "random"])
def test_shares_of_mixtures_are_recovered(share, other, audit):
    found = audit(looker=share, **{other: 1 - share})["shares"]
    expected = [share * x + (1 - share) * y for x, y in zip(ALONE["looker"], _alone(other), strict=True)]
    assert values(found) == pytest.approx(expected, abs=0.05)


def _alone(strategy):
    return ALONE.get(strategy, ALONE["prior_answer"])


@slow
def test_a_looker_with_errors_and_a_chance_answerer_have_their_net_share(audit):
    found = audit(looker_80=1.0)["shares"]
    # right in 0.8 and reversed in 0.2; the pair changes in 0.8^2 + 0.2^2, or without a reason in 2 x 0.8 x 0.2
    expected = (0.6, 0, 0.4, 0.36, 0.36)
    assert values(found) == pytest.approx(expected, abs=0.05)
    assert all(found[name]["interval"][0] <= value <= found[name]["interval"][1] for name, value in
               zip(("looking", "responding"), (0.6, 0.36), strict=True))  # fmt: skip
    assert values(audit(random=1.0)["shares"]) == pytest.approx((0, 0, 1, 0, 0), abs=0.05)


@slow
def test_a_looker_for_one_finding_is_seen_by_finding(audit):
    for name, found in audit(pneumothorax_only=1.0)["by_finding"].items():
        looks = float(name == "Pneumothorax")
        for part, share in (("looking", looks), ("guessing", 1 - looks)):
            if found["shares"][part] is not None:  # no other patient has the opposite label
                assert found["shares"][part]["value"] == pytest.approx(share)


@slow
def test_a_looker_that_guesses_about_unknown_images_still_looks(audit):
    found = audit(random_if_unseen=1.0)
    assert values(found["shares"]) == pytest.approx((1, 0, 0, 1, 0), abs=0.05)
    for name in ("blank", "noise", "low_pass", "none"):
        assert found["accuracy"][name]["value"] == pytest.approx(0.5, abs=0.06)


@slow
def test_answers_by_another_finding_do_not_depend_on_the_region(audit):
    found = audit(shortcut=1.0)["shares"]
    assert found["looking"]["value"] < 0.35 and abs(found["region"]["value"]) < 0.1


@slow
def test_failures_are_counted_and_are_neither_right_nor_changed(audit):
    found = audit(fails_if_changed=1.0)
    assert found["failed"].keys() >= {"blank", "none", "noise", "low_pass", "covered", "control"}
    assert found["accuracy"]["covered"] is None is found["shares"]["region"]
    assert found["shares"]["looking"]["value"] == 0
