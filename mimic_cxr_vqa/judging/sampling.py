"""Draw the pairs that people rate: at random, or stratified by a judge's verdict.

If 95% of the answers are correct, 100 random pairs contain five incorrect ones, which are too few to measure a judge. A
sample stratified by the judge's verdict contains more. Its pairs are weighted by 1 / inclusion probability.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from medvqa_core.digests import digest
from medvqa_core.errors import ConfigError
from mimic_cxr_vqa.judging.pairs import Pair

ALL, FLAWLESS, FLAWED = "all", "flawless", "flawed"  # names of strata


@dataclass(frozen=True)
class SampledPair:
    """A pair of the sample, its stratum, and the share of the stratum that was drawn."""

    pair: Pair
    stratum: str
    inclusion_probability: float


def draw_sample(
    pairs: Sequence[Pair], items: int, seed: int, stratum_of: Callable[[Pair], str] | None = None
) -> tuple[list[SampledPair], dict[str, int]]:
    """Draw `items` of `pairs` in random order. Also returns the number of pairs in each stratum.

    Args:
        stratum_of: returns the stratum of a pair. The strata share the items evenly, as far as their sizes allow. None
            draws a simple random sample.

    Raises:
        ConfigError: `items` is less than 1 or more than the number of pairs.
    """
    if not 1 <= items <= len(pairs):
        raise ConfigError(
            f"Cannot draw {items} items from {len(pairs)} pairs. Expected --items from 1 to {len(pairs)}."
        )
    strata: dict[str, list[Pair]] = {}
    for pair in sorted(pairs, key=lambda pair: digest(f"{seed}/{pair.id}")):
        strata.setdefault(stratum_of(pair) if stratum_of else ALL, []).append(pair)
    shares = share_evenly({name: len(members) for name, members in sorted(strata.items())}, items)
    drawn = [
        SampledPair(pair, name, shares[name] / len(members))
        for name, members in strata.items()
        for pair in members[: shares[name]]
    ]
    drawn.sort(key=lambda one: digest(f"{seed}/shuffled/{one.pair.id}"))
    return drawn, {name: len(members) for name, members in sorted(strata.items())}


def share_evenly(sizes: Mapping[str, int], items: int) -> dict[str, int]:
    """Distribute `items` over strata of these sizes as evenly as possible."""
    shares, left = {}, items
    for place, (name, size) in enumerate(sorted(sizes.items(), key=lambda entry: entry[1])):
        shares[name] = min(size, left // (len(sizes) - place))
        left -= shares[name]
    return shares


def shuffle(names: Sequence[str], seed: int, rater: str) -> list[str]:
    """`names` in the random order of one rater."""
    return sorted(names, key=lambda name: digest(f"{seed}/{rater}/{name}"))
