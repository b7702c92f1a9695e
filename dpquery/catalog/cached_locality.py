"""What is unit-local, while a query is planned: the rules of `units`, worked out once for each relation.

The gate does not use this: it applies the rules again, from the scans up, to the plan that will run.
"""

from __future__ import annotations

from dpquery.plan.cached import cached
from dpquery.plan.logical import Relation
from dpquery.units.declarations import Declarations
from dpquery.units.locality import Locality, locality


@cached
def cached_locality(relation: Relation, declared: Declarations) -> Locality:
    """Returns the relation's `locality`, or raises what it raises."""
    return locality(relation, declared, cached_locality)
