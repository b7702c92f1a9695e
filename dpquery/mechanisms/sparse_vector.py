"""The sparse vector technique: many questions whether a value is above a threshold, paid for by the few that are."""

from __future__ import annotations

from fractions import Fraction

from dpquery.accounting.amounts import Amount, read
from dpquery.accounting.amounts import whole as count
from dpquery.errors import InvalidLossError, ParameterError
from dpquery.kernel import samplers
from dpquery.ledger.ledger import Ledger
from dpquery.mechanisms.accountant import Accountant, Cost, pay
from dpquery.mechanisms.grid import OnGrid, on_grid


class SparseVector:
    """Says of one value after the other whether it is above a threshold, with noise, until `most_above` were.

    Args:
        threshold: Public, in the unit of the values.
        sensitivity: By how much each value moves at most between neighbours.
        epsilon: The loss of all answers together, however many are below; charged at once.
        most_above: After so many values above, it answers nothing more.
        one_direction: Whether all values rise, or all fall, when somebody is added, as counts do: less noise.
        whole: Whether values and threshold are integers; then the grid is 1.
        to: Who pays.
    Privacy:
        epsilon-DP, also where values depend on earlier answers.
    Source:
        Dwork, Naor, Reingold, Rothblum, Vadhan 2009; Lyu, Su, Li 2017, Algorithm 1; docs/proofs/values.md.
    Example:
        >>> above = SparseVector(threshold=1000, sensitivity=1, epsilon="1", most_above=1, whole=True)
        >>> above(10), above(100_000)
        (False, True)
    """

    def __init__(
        self,
        *,
        threshold: float,
        sensitivity: Amount,
        epsilon: Amount,
        most_above: int = 1,
        one_direction: bool = False,
        whole: bool = False,
        to: Accountant | Ledger | None = None,
    ) -> None:
        """Charges the loss, and draws the noise of the threshold."""
        self._sensitivity, self._is_whole = read(sensitivity, "sensitivity"), whole
        self._left = count(most_above, "most_above")
        pure, limit = read(epsilon, "epsilon"), self._on_grid(threshold)
        moved = limit.l1(self._sensitivity, 1)
        weight = _cube_root((1 if one_direction else 2) * most_above) ** 2
        of_threshold = pure / (1 + weight)
        of_values = pure - of_threshold
        self._scale = moved * most_above * (1 if one_direction else 2) / of_values
        for scale in (self._scale, moved / of_threshold):
            if not samplers.MIN_LAPLACE_SCALE <= scale <= samplers.MAX_LAPLACE_SCALE:
                raise InvalidLossError("noise of this size is not sampled exactly", advice="Change the loss or unit.")
        pay(to, Cost.pure(pure), f"a sparse vector with at most {most_above} above")
        self._threshold = int(limit.steps[0]) + int(samplers.discrete_laplace(moved / of_threshold, 1)[0])

    @property
    def is_over(self) -> bool:
        """Whether so many values were above that nothing more is answered."""
        return self._left == 0

    def __call__(self, value: float) -> bool:
        """Returns whether a value is above, with noise; raises ParameterError once it is over."""
        if self.is_over:
            raise ParameterError("this sparse vector has ended", advice="Make another, at another charge.")
        noisy = int(self._on_grid(value).steps[0]) + int(samplers.discrete_laplace(self._scale, 1)[0])
        is_above = noisy >= self._threshold
        self._left -= is_above
        return is_above

    def _on_grid(self, value: float) -> OnGrid:
        return on_grid(int(value) if self._is_whole else float(value), self._sensitivity)


def _cube_root(number: int) -> Fraction:
    """Returns about the cube root, to three places: how the loss is shared is free, and this share errs least."""
    return Fraction(round(1000 * number ** (1 / 3)), 1000)
