"""Which pairs people rate: drawn plainly, or half of them from those a judge objects to, with their probabilities.

With 95% "correct", 100 pairs drawn plainly hold five that are not: too few to measure a judge on. A sample stratified
by the judge's verdict holds many; whoever counts in it weights each pair by 1 / its inclusion probability.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from medvqa_core.digests import digest
from medvqa_core.errors import ConfigError
from mimic_cxr_vqa.judging.pairs import Pair

ALL, FLAWLESS, FLAWED = "all", "flawless", "flawed"  # strata: of a plain sample; by a judge's verdict


@dataclass(frozen=True)
class Drawn:
    """A pair of the sample, the stratum that it was drawn from, and the share of that stratum that was drawn."""

    pair: Pair
    stratum: str
    inclusion_probability: float


def draw_sample(
    pairs: Sequence[Pair], items: int, seed: int, stratum_of: Callable[[Pair], str] | None = None
) -> tuple[list[Drawn], dict[str, int]]:
    """`items` of `pairs`, in an order that tells nothing of them, and how many pairs each stratum holds.

    Args:
        stratum_of: None for a plain sample. The strata share the items evenly; one that has too few gives all it has,
            and the others take its place.

    Raises:
        ConfigError: fewer than one item, or more than there are pairs.
    """
    if not 1 <= items <= len(pairs):
        raise ConfigError(f"{items} items of {len(pairs)} pairs; allowed: 1 to {len(pairs)}")
    strata: dict[str, list[Pair]] = {}
    for pair in sorted(pairs, key=lambda pair: digest(f"{seed}/{pair.id}")):
        strata.setdefault(stratum_of(pair) if stratum_of else ALL, []).append(pair)
    shares = share_evenly({name: len(members) for name, members in sorted(strata.items())}, items)
    drawn = [
        Drawn(pair, name, shares[name] / len(members))
        for name, members in strata.items()
        for pair in members[: shares[name]]
    ]
    drawn.sort(key=lambda one: digest(f"{seed}/shuffled/{one.pair.id}"))
    return drawn, {name: len(members) for name, members in sorted(strata.items())}


def share_evenly(sizes: Mapping[str, int], items: int) -> dict[str, int]:
    """`items` over strata of these sizes: as even as their sizes allow, whole numbers, smallest stratum first."""
    shares, left = {}, items
    for place, (name, size) in enumerate(sorted(sizes.items(), key=lambda entry: entry[1])):
        shares[name] = min(size, left // (len(sizes) - place))
        left -= shares[name]
    return shares


def shuffle(names: Sequence[str], seed: int, rater: str) -> list[str]:
    """`names` in the order of one rater."""
    return sorted(names, key=lambda name: digest(f"{seed}/{rater}/{name}"))
