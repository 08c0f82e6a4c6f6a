"""How the drawn questions are spread: evenly, independently, and as few of them lost as in the released dataset."""

import numpy as np

from mimic_cxr_vqa.generation.questions import DRAWS_PER_POSITIVE, NOT_MENTIONED, draw_questions
from mimic_cxr_vqa.schema import CATEGORIES, CHEXPERT_LABELS


def chi_square(counts: np.ndarray) -> float:
    expected = counts.sum() / counts.size
    return float(((counts - expected) ** 2 / expected).sum())


def test_draws_are_uniform_over_categories_and_over_questions():
    """20,000 studies with one positive label: 13 - 1 candidates for 80,000 draws. Bounds: 99.9% quantiles."""
    studies = 20_000
    labels = np.full((studies, len(CHEXPERT_LABELS)), NOT_MENTIONED, np.int8)
    labels[:, CHEXPERT_LABELS.index("Edema")] = 1
    index = draw_questions(np.arange(studies), labels, np.zeros(studies, bool), seed=3)
    drawn = index.value == NOT_MENTIONED
    assert drawn.sum() == 4 * studies
    table = np.zeros((len(CATEGORIES), 6))
    np.add.at(table, (index.category[drawn], index.number[drawn]), 1)
    table = table[table.any(axis=1)]
    assert len(table) == 12
    assert chi_square(table.sum(axis=1)) < 31.3  # 11 degrees of freedom
    assert chi_square(table.sum(axis=0)) < 20.5  # 5
    assert chi_square(table) < 112.3  # 71


def test_the_draws_of_a_study_do_not_depend_on_each_other():
    """Two candidates and four draws: how many fall on the first is binomial. 4 degrees of freedom."""
    studies = 20_000
    labels = np.zeros((studies, len(CHEXPERT_LABELS)), np.int8)
    labels[:, [0, 1]] = NOT_MENTIONED
    index = draw_questions(np.arange(studies) * 1024, labels, np.ones(studies, bool), seed=0)
    on_first = np.bincount(index.study[(index.value == NOT_MENTIONED) & (index.category == 0)], minlength=studies)
    seen, expected = np.bincount(on_first, minlength=5), studies * np.array([1, 4, 6, 4, 1]) / 16
    assert ((seen - expected) ** 2 / expected).sum() < 18.5


def test_the_share_of_lost_draws_is_about_that_of_the_released_dataset():
    """There 1,572 of 1,056,804 were lost (0.15%). Labels as frequent as in Table 2, but independent."""
    random = np.random.default_rng(0)
    studies = 30_000
    rates = np.array([423_065, 158_614, 75_018, 2_532_881])
    labels = random.choice([1, 0, -1, NOT_MENTIONED], (studies, len(CHEXPERT_LABELS)), p=rates / rates.sum())
    heart = random.random(studies) < 0.6
    index = draw_questions(np.arange(studies), labels.astype(np.int8), heart, seed=0)
    draws = DRAWS_PER_POSITIVE * ((labels == 1).sum() + heart.sum())
    lost = 1 - (index.value == NOT_MENTIONED).sum() / draws
    assert 0.0005 < lost < 0.005


def test_a_seed_is_used_whole():
    studies = 40
    labels = np.full((studies, len(CHEXPERT_LABELS)), NOT_MENTIONED, np.int8)
    labels[:, 0] = 1
    seeds = [0, 1, 2, -1, -2, 2**64 - 1, 2**64, 2**64 + 1, 2**64 + 2, -(2**64), 2**65, 2**128, -(2**128), 2**200]
    drawn = {
        seed: draw_questions(np.arange(studies), labels, np.zeros(studies, bool), seed).category.tobytes()
        for seed in seeds
    }
    assert len(set(drawn.values())) == len(seeds)
