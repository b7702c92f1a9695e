"""Privacy bugs, each an exact replacement of text in the package, with the tests that must find it.

Most were seen in a real system, the others are one edit away.
"""

from __future__ import annotations

from dataclasses import dataclass

NEIGHBOURS = "tests/properties/test_neighbours.py"
GATE = "tests/properties/test_gate.py"
CASES = "tests/cases/test_cases.py"
NONINTERFERENCE = "tests/properties/test_noninterference.py"
CALIBRATION = "tests/statistical/test_calibration.py"
AGGREGATES = "tests/backends/test_aggregates.py"
THRESHOLDS = "tests/statistical/test_thresholds.py"
SAMPLERS = "tests/statistical/test_samplers.py"
CHOICES = "tests/statistical/test_choices.py"
EXPONENTIAL = "tests/unit/kernel/test_exponential.py"
LOSS = "tests/unit/kernel/test_loss.py"
ACCOUNTANT = "tests/unit/kernel/test_accountant.py"
ALLOCATION = "tests/unit/planner/test_allocation.py"
LEDGER = "tests/unit/kernel/test_ledger.py"
DIRECTED = "tests/unit/kernel/test_directed.py"
RENYI = "tests/unit/privacy/test_rdp.py"
COMPOSITION = "tests/unit/privacy/test_composition.py"
GAUSSIAN = "tests/unit/privacy/test_gaussian_calibration.py"
TRADEOFF = "tests/unit/privacy/test_tradeoff.py"
STORES = "tests/unit/kernel/test_ledger_stores.py"
BLOCKS = "tests/unit/kernel/test_blocks.py"
BLOCK_LEDGER = "tests/unit/kernel/test_ledger_blocks.py"
BLOCK_ATTACKS = "tests/attacks/test_block_attacks.py"
MACHINE = "tests/unit/kernel/test_ledger_machine.py"


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One bug.

    Attributes:
        name: What is wrong with it, in a few words.
        file: Where it sits, under `dpquery/`.
        old, new: The text that is there, exactly once, and the text that is put in its place.
        tests: A test file that must fail.
        only: An expression for pytest's `-k`; "" runs the whole file, slow tests apart.
    """

    name: str
    file: str
    old: str
    new: str
    tests: str
    only: str = ""


MUTANTS = (
    # The scale of the noise.
    Mutant(
        name="Laplace noise of half the scale",
        file="kernel/mechanisms.py",
        old="parameter = moved.l1 / noise.loss.epsilon",
        new="parameter = moved.l1 / noise.loss.epsilon / 2",
        tests=CALIBRATION,
    ),
    Mutant(
        name="Gaussian noise smaller by sqrt 2",
        file="kernel/mechanisms.py",
        old="parameter = moved.l2_squared / (2 * noise.loss.rho)",
        new="parameter = moved.l2_squared / (4 * noise.loss.rho)",
        tests=CALIBRATION,
        only="gaussian",
    ),
    Mutant(
        name="a deviation given where a variance is expected",
        file="kernel/mechanisms.py",
        old="return samplers.discrete_gaussian(self.parameter, size)",
        new="return samplers.discrete_gaussian(Fraction(math.isqrt(math.ceil(self.parameter))), size)",
        tests=CALIBRATION,
        only="gaussian",
    ),
    Mutant(
        name="the L2 norm with Laplace noise",
        file="kernel/mechanisms.py",
        old="parameter = moved.l1 / noise.loss.epsilon",
        new="parameter = Fraction(math.isqrt(moved.l2_squared)) / noise.loss.epsilon",
        tests=CALIBRATION,
        only="laplace",
    ),
    Mutant(
        name="each measure gets the whole loss",
        file="planner/allocate.py",
        old="(amount * share for share in shares)",
        new="(amount for share in shares)",
        tests=CALIBRATION,
        only="share",
    ),
    Mutant(
        name="only the first measure is charged",
        file="kernel/accountant.py",
        old="for part in plan.aggregates for noise in part.noise])",
        new="for part in plan.aggregates for noise in part.noise[:1]])",
        tests=CALIBRATION,
        only="share",
    ),
    Mutant(
        name="shares sum to more than the offer",
        file="planner/shares.py",
        old="return tuple(Fraction(int(part), parts) for part in whole)",
        new="return tuple(Fraction(int(part) + 1, parts) for part in whole)",
        tests=ALLOCATION,
        only="offer",
    ),
    Mutant(
        name="half of the loss is given away",
        file="planner/allocate.py",
        old="(amount * share for share in shares)",
        new="(amount * share / 2 for share in shares)",
        tests=CALIBRATION,
    ),
    Mutant(
        name="epsilon costs a quarter of its square in rho",
        file="kernel/loss.py",
        old="return epsilon * epsilon / 2",
        new="return epsilon * epsilon / 4",
        tests=LOSS,
    ),
    # How far one unit moves a vector.
    Mutant(
        name="the width of the range instead of its largest magnitude",
        file="kernel/sensitivity.py",
        old="return min(0, rows * least), max(0, rows * greatest)",
        new="return 0, rows * (greatest - least)",
        tests=NEIGHBOURS,
        only="worst_cases",
    ),
    Mutant(
        name="the magnitude of the lower bound alone",
        file="kernel/sensitivity.py",
        old="max(-least, greatest, 1), max(greatest",
        new="max(-least, 1), max(greatest",
        tests=NEIGHBOURS,
        only="worst_cases",
    ),
    Mutant(
        name="the smaller magnitude of both bounds",
        file="kernel/sensitivity.py",
        old="max(-least, greatest, 1), max(greatest",
        new="max(min(-least, greatest), 1), max(greatest",
        tests=NEIGHBOURS,
        only="worst_cases",
    ),
    Mutant(
        name="max_rows ignored",
        file="kernel/sensitivity.py",
        old="rows = 1 if aggregate.unit is None else aggregate.bound.max_rows",
        new="rows = 1",
        tests=NEIGHBOURS,
        only="worst_cases",
    ),
    Mutant(
        name="max_groups ignored",
        file="kernel/sensitivity.py",
        old="groups = 1 if aggregate.unit is None or not aggregate.keys else aggregate.bound.max_groups",
        new="groups = 1",
        tests=NEIGHBOURS,
        only="worst_cases",
    ),
    Mutant(
        name="a distinct count moves by 1",
        file="kernel/sensitivity.py",
        old="        case Count.UNITS:\n            return 0, 1",
        new="        case Count.UNITS | Count.DISTINCT:\n            return 0, 1",
        tests=NEIGHBOURS,
        only="worst_cases",
    ),
    Mutant(
        name="replacing a unit treated as adding one",
        file="kernel/sensitivity.py",
        old="        case Neighbours.ADD_REMOVE:\n",
        new="        case Neighbours.ADD_REMOVE | Neighbours.REPLACE_ONE:\n",
        tests=NEIGHBOURS,
        only="worst_cases",
    ),
    Mutant(
        name="a unit and its replacement take the same groups",
        file="kernel/sensitivity.py",
        old="least_shared = 0 if possible is None else max(0, 2 * groups - max(1, possible))",
        new="least_shared = groups",
        tests=NEIGHBOURS,
        only="worst_cases",
    ),
    # What a unit may contribute, and what a value may be.
    Mutant(
        name="counts are not bounded",
        file="backends/private_sql.py",
        old='return f"LEAST(part{i}_n, {rows})"',
        new='return f"part{i}_n"',
        tests=NEIGHBOURS,
        only="worst_cases",
    ),
    Mutant(
        name="sums are not bounded",
        file="backends/private_sql.py",
        old="CASE WHEN {count} <= {rows} THEN {narrow} WHEN",
        new="CASE WHEN {count} >= 0 THEN {narrow} WHEN",
        tests=NEIGHBOURS,
        only="worst_cases",
    ),
    Mutant(
        name="distinct values are not bounded",
        file="backends/private_sql.py",
        old="WHERE place <= {self.aggregate.bound.max_rows}",
        new="WHERE place > 0",
        tests=NEIGHBOURS,
        only="worst_cases",
    ),
    Mutant(
        name="values are given to one person before they are bounded",
        file="backends/private_sql.py",
        old="""SELECT DISTINCT {', '.join([*unit, f'{value} AS value'])} FROM {self._candidate_rows}"
        pairs += f" WHERE {value} IS NOT NULL{passing}\"""",
        new="""SELECT {', '.join(['MIN(unit) AS unit', *self._keys, f'{value} AS value'])} FROM {self._candidate_rows}"
        pairs += f" WHERE {value} IS NOT NULL{passing} GROUP BY {', '.join([*self._keys, value])}\"""",
        tests=NEIGHBOURS,
        only="take_over",
    ),
    Mutant(
        name="a unit keeps one group too many",
        file="backends/private_sql.py",
        old="WHERE place > {self._max_groups}",
        new="WHERE place > {self._max_groups} + 1",
        tests=NEIGHBOURS,
        only="worst_cases",
    ),
    Mutant(
        name="groups are kept over all units together",
        file="backends/private_sql.py",
        old='row_number() OVER (PARTITION BY unit ORDER BY {order}) AS place"',
        new='row_number() OVER (ORDER BY {order}) AS place"',
        tests=NEIGHBOURS,
        only="worst_cases or kept",
    ),
    Mutant(
        name="selected groups are not bounded",
        file="backends/private_sql.py",
        old="return bool(self.aggregate.keys) and (possible is None or possible > self._max_groups)",
        new="return bool(self.aggregate.keys) and possible is not None and possible > self._max_groups",
        tests=NEIGHBOURS,
        only="worst_cases",
    ),
    Mutant(
        name="distinct counts keep other groups than counts",
        file="backends/private_sql.py",
        old="        if self._ranks:\n            on = ",
        new="        if not self.aggregate.keys:\n            on = ",
        tests=NEIGHBOURS,
        only="worst_cases or kept",
    ),
    Mutant(
        name="rows of nobody are one more unit",
        file="backends/private_sql.py",
        old=' WHERE {unit} IS NOT NULL"',
        new='"',
        tests=NEIGHBOURS,
        only="nobody",
    ),
    Mutant(
        name="groups that no unit kept are given",
        file="backends/private_sql.py",
        old='        if self.aggregate.selection is None:\n            return ""',
        new='        if True:\n            return ""',
        tests=NEIGHBOURS,
        only="no_unit_kept",
    ),
    Mutant(
        name="integers are not clamped",
        file="backends/lattice_sql.py",
        old="THEN {lower} WHEN {value} > {upper} THEN {upper} END",
        new="THEN {lower} ELSE {value} END",
        tests=NEIGHBOURS,
        only="worst_cases",
    ),
    Mutant(
        name="NULL and NaN become the upper bound",
        file="backends/lattice_sql.py",
        old="THEN {lower} WHEN {steps} <= 'inf'::DOUBLE THEN {upper} END",
        new="THEN {lower} ELSE {upper} END",
        tests=NEIGHBOURS,
        only="very_many_rows",
    ),
    Mutant(
        name="NaN is read as a value",
        file="backends/reading.py",
        old="CASE WHEN NOT isnan({wide}) THEN {wide} + 0.0::DOUBLE END",
        new="{wide} + 0.0::DOUBLE",
        tests=NEIGHBOURS,
        only="nan",
    ),
    Mutant(
        name="mixed columns are read as text",
        file="backends/sources.py",
        old="pa.array([read(value, type) for value in series], type=arrow_type(type))",
        new="pa.array([None if value != value else str(value) for value in series], type=pa.string())",
        tests=NEIGHBOURS,
        only="misfit",
    ),
    # Which relations are unit-local.
    Mutant(
        name="a private join equates any two columns",
        file="kernel/local_joins.py",
        old="for a, b in pairs if a in left.telling and b in right.telling for id in (a, b))",
        new="for a, b in pairs for id in (a, b))",
        tests=NEIGHBOURS,
        only="mix_people",
    ),
    Mutant(
        name="the side that a left join fills up tells the unit of every row",
        file="kernel/local_joins.py",
        old="return Locality(private=True, units=left.units, partial=left.partial | right.telling)",
        new="return Locality(private=True, units=left.units | right.units, partial=left.partial)",
        tests=GATE,
        only="refused",
    ),
    Mutant(
        name="outer joins need no equal units",
        file="kernel/local_joins.py",
        old="    if not _equal_units(join, left, right):",
        new='    if join.kind in ("inner", "cross") and not _equal_units(join, left, right):',
        tests=NEIGHBOURS,
        only="mix_people",
    ),
    Mutant(
        name="after a full join any COALESCE of units tells the unit",
        file="kernel/local_joins.py",
        old="if a in left.units and b in right.units}",
        new="if True}",
        tests=GATE,
        only="refused",
    ),
    Mutant(
        name="after a full join one side tells the unit",
        file="kernel/local_joins.py",
        old="                partial.add(column.id)",
        new="                units.add(column.id)",
        tests=GATE,
        only="refused",
    ),
    Mutant(
        name="a full join is any join",
        file="kernel/local_joins.py",
        old='        case "inner" | "cross":\n            met',
        new='        case "inner" | "cross" | "full":\n            met',
        tests=GATE,
        only="refused",
    ),
    Mutant(
        name="a row may meet several public rows",
        file="kernel/local_joins.py",
        old="    if declared.unit_is_row:\n        public, keys =",
        new="    if False:\n        public, keys =",
        tests=NEIGHBOURS,
        only="each_row_is_a_unit",
    ),
    Mutant(
        name="unmatched public rows are kept",
        file="kernel/local_joins.py",
        old='if join.kind not in ("inner", "cross") and not (join.kind == "left" and left.private):',
        new="if False:",
        tests=GATE,
        only="refused",
    ),
    Mutant(
        name="one side's unit is enough for the unit of a set operation",
        file="kernel/local_joins.py",
        old="if c.left in left.units and c.right in right.units}",
        new="if c.left in left.units or c.right in right.units}",
        tests=GATE,
    ),
    Mutant(
        name="a set operation compares rows without their units",
        file="kernel/local_joins.py",
        old="    if not units:\n        word = operation.kind",
        new='    if not units and operation.kind == "union_all":\n        word = operation.kind',
        tests=CASES,
        only="set_operations",
    ),
    Mutant(
        name="private rows beside public ones",
        file="kernel/local_joins.py",
        old='    if not (left.private and right.private):\n        raise NotUnitLocal("a set operation puts',
        new='    if False:\n        raise NotUnitLocal("a set operation puts',
        tests=GATE,
    ),
    Mutant(
        name="a row that is a unit comes out twice",
        file="kernel/local_joins.py",
        old="    if twice:",
        new="    if False:",
        tests=GATE,
    ),
    Mutant(
        name="rows that are units are compared",
        file="kernel/local_joins.py",
        old='    if operation.kind != "union_all":',
        new="    if False:",
        tests=CASES,
        only="set_operations",
    ),
    Mutant(
        name="people decide about each other by IN and EXISTS",
        file="kernel/local_semijoins.py",
        old="    if right.private:\n",
        new="    if False:\n",
        tests=GATE,
    ),
    Mutant(
        name="a semi-join equates any two columns",
        file="kernel/local_semijoins.py",
        old="if isinstance(a, Column) and a.id in left.units and isinstance(b, Column) and b.id in right.units:",
        new="if isinstance(a, Column) and isinstance(b, Column):",
        tests=NEIGHBOURS,
        only="mix_people",
    ),
    Mutant(
        name="the unit of a semi-join is looked for on the right",
        file="kernel/local_semijoins.py",
        old="    return Locality(private=True, units=left.units)",
        new="    return Locality(private=True, units=left.units | right.units)",
        tests=GATE,
    ),
    Mutant(
        name="private rows are compared with a limited table",
        file="kernel/local_joins.py",
        old="    if any(_is_limited(side) for side in (join.left, join.right)):",
        new="    if False:",
        tests=GATE,
    ),
    Mutant(
        name="the unit of unmatched rows is looked for on the right",
        file="kernel/local_joins.py",
        old="units=left.units, partial=left.partial | right.telling",
        new="units=left.units | right.units, partial=left.partial | right.telling",
        tests=GATE,
    ),
    Mutant(
        name="a literal table of several rows has one",
        file="kernel/local_joins.py",
        old="if len(relation.rows) <= 1 else []",
        new="if relation.rows else []",
        tests=GATE,
    ),
    Mutant(
        name="any condition leaves one row",
        file="kernel/local_joins.py",
        old="if isinstance(a, Column) and isinstance(b, Literal))",
        new="if isinstance(a, Column))",
        tests=GATE,
    ),
    Mutant(
        name="LIMIT over private rows",
        file="kernel/locality.py",
        old="            if locality(relation.source, declared).private:",
        new="            if False:",
        tests=GATE,
    ),
    Mutant(
        name="exact totals over all units within a query",
        file="kernel/locality.py",
        old='    if not units:\n        raise NotUnitLocal(\n            "an exact aggregate',
        new='    if False:\n        raise NotUnitLocal(\n            "an exact aggregate',
        tests=GATE,
    ),
    Mutant(
        name="windows over all units",
        file="kernel/locality.py",
        old="    if not all(source.units & set(column.partition_by) for column in window.columns):\n",
        new="    if False:\n",
        tests=GATE,
    ),
    Mutant(
        name="one of the windows has the unit",
        file="kernel/locality.py",
        old="if not all(source.units & set(column.partition_by)",
        new="if not any(source.units & set(column.partition_by)",
        tests=GATE,
    ),
    Mutant(
        name="windows over rows that are units",
        file="kernel/locality.py",
        old='    if declared.unit_is_row:\n        raise NotUnitLocal(\n            "a window',
        new='    if declared.unit_is_row:\n        return source\n        raise NotUnitLocal(\n            "a window',
        tests=GATE,
    ),
    Mutant(
        name="places in several orders at once",
        file="kernel/locality.py",
        old="for c in window.columns if is_positional(c)}) > 1:",
        new="for c in window.columns if is_positional(c)}) > 9:",
        tests=GATE,
    ),
    Mutant(
        name="the rows' places in storage break ties",
        file="backends/windows_sql.py",
        old="    return keys, ties\n",
        new="    return keys, []\n",
        tests=NEIGHBOURS,
        only="which_row_is_the_first",
    ),
    Mutant(
        name="several orders are taken together",
        file="sql/windows.py",
        old="if is_positional(column) else None",
        new="if column.function == '' else None",
        tests=NEIGHBOURS,
        only="which_row_is_the_first",
    ),
    Mutant(
        name="floats are added in the engine's order",
        file="plan/windows.py",
        old="    if given == FLOAT64:\n",
        new="    if given == FLOAT64 and argument.type.kind is Kind.TEXT:\n",
        tests="tests/backends/test_windows.py",
        only="exact or partitions",
    ),
    Mutant(
        name="conditions of filters are not looked at",
        file="kernel/locality.py",
        old="            check_expressions([relation.condition], relation.source)\n",
        new="",
        tests=GATE,
    ),
    Mutant(
        name="a table's declaration is taken from the plan",
        file="kernel/locality.py",
        old="if table is None or table.public is not scan.public or table.ownership != scan.ownership:",
        new="if table is None:",
        tests=GATE,
    ),
    Mutant(
        name="contributions may be bounded by any column",
        file="kernel/release.py",
        old="    if aggregate.unit is not None and aggregate.unit not in known.units:",
        new="    if False:",
        tests=GATE,
    ),
    Mutant(
        name="a table's name wins over WITH",
        file="sql/tables.py",
        old="            if common is not None:",
        new="            if common is not None and context.catalog.find_table(node.name, False) is None:",
        tests=NEIGHBOURS,
        only="common_table",
    ),
    Mutant(
        name="uniqueness of public tables is believed",
        file="backends/duckdb.py",
        old="if _any(cursor, _repeated(self._from[table.name], columns)):",
        new="if False:",
        tests=NEIGHBOURS,
        only="rests_on",
    ),
    Mutant(
        name="that a foreign key leads to one person is believed",
        file="backends/duckdb.py",
        old="if _any(cursor, _repeated(self._from[step.parent], columns)):",
        new="if False:",
        tests=NEIGHBOURS,
        only="rests_on",
    ),
    # Which groups are shown.
    Mutant(
        name="tau by the law of Laplace for Gaussian noise",
        file="kernel/mechanisms.py",
        old="return (tails.laplace_tail if laplace else tails.gaussian_tail)(self.parameter, k)",
        new="return tails.laplace_tail(self.parameter, k)",
        tests=THRESHOLDS,
        only="gaussian",
    ),
    Mutant(
        name="tau by the law of Gauss for Laplace noise",
        file="kernel/mechanisms.py",
        old="return (tails.laplace_tail if laplace else tails.gaussian_tail)(self.parameter, k)",
        new="return tails.gaussian_tail(self.parameter, k)",
        tests=THRESHOLDS,
        only="laplace or tau",
    ),
    Mutant(
        name="tau for one group",
        file="kernel/mechanisms.py",
        old="allowed = delta / groups",
        new="allowed = delta",
        tests=THRESHOLDS,
        only="tau",
    ),
    Mutant(
        name="tau lower by one",
        file="kernel/selection.py",
        old="np.flatnonzero(noisy_units >= tau)",
        new="np.flatnonzero(noisy_units >= tau - 1)",
        tests=THRESHOLDS,
        only="from_tau_on",
    ),
    Mutant(
        name="the threshold is on rows",
        file="kernel/release.py",
        old="selection.selected_order(noisy[deciding], tau, exact.keys)",
        new="selection.selected_order(noisy[0], tau, exact.keys)",
        tests=THRESHOLDS,
        only="not_on_rows",
    ),
    Mutant(
        name="the threshold is on exact numbers",
        file="kernel/release.py",
        old="selection.selected_order(noisy[deciding], tau, exact.keys)",
        new="selection.selected_order(exact.numbers[deciding], tau, exact.keys)",
        tests=THRESHOLDS,
        only="noisy",
    ),
    Mutant(
        name="the delta of a selection is not charged",
        file="kernel/accountant.py",
        old="deltas = [PrivacyLoss(delta=part.selection_delta) for part in plan.aggregates]",
        new="deltas = [PrivacyLoss() for part in plan.aggregates]",
        tests=THRESHOLDS,
        only="lone",
    ),
    Mutant(
        name="public groups without rows are left out",
        file="kernel/release.py",
        old="""    noisy = _noisy(aggregate, filled, exact.histograms, noises, places)
    keys = selection.all_codes(aggregate.keys, groups)
""",
        new="""    noisy = _noisy(aggregate, exact.numbers, exact.histograms, noises, np.arange(len(places)))
    keys = exact.keys
""",
        tests=NEIGHBOURS,
        only="public_groups or equal_shapes",
    ),
    Mutant(
        name="groups in the order of the engine",
        file="kernel/selection.py",
        old="ranked = sorted(shown.tolist(), key=lambda index: tuple(sort_key(column[index]) for column in keys))",
        new="ranked = shown.tolist()",
        tests=NEIGHBOURS,
        only="sorted",
    ),
    # Randomness.
    Mutant(
        name="all groups share a draw",
        file="kernel/release.py",
        old="drawn: Integers = noise.sample(len(numbers))",
        new="drawn: Integers = np.repeat(noise.sample(1), len(numbers))",
        tests=CALIBRATION,
        only="shared",
    ),
    Mutant(
        name="few bytes from a generator with a seed",
        file="kernel/samplers.py",
        old="        return os.urandom(size)",
        new="        return np.random.default_rng(size).bytes(size)",
        tests=SAMPLERS,
        only="differ",
    ),
    Mutant(
        name="many bytes under a fixed key",
        file="kernel/samplers.py",
        old="    secret = os.urandom(48)",
        new="    secret = bytes(48)",
        tests=CALIBRATION,
        only="shared or twice",
    ),
    Mutant(
        name="proposals of the Gaussian are all accepted",
        file="kernel/samplers.py",
        old="    accepted = gap < 0\n",
        new="    accepted = gap < 2\n",
        tests=SAMPLERS,
        only="deviation",
    ),
    Mutant(
        name="zero has two signs",
        file="kernel/samplers.py",
        old="np.bitwise_xor(magnitude, -bits[0].view(np.int8), out=out)",
        new="np.multiply(magnitude, 1 - 2 * bits[0].view(np.int8), out=out)",
        tests=SAMPLERS,
        only="scale",
    ),
    # Ledger, errors and order.
    Mutant(
        name="charged after the engine ran",
        file="kernel/release.py",
        old="""
    entry = None if charge == ZERO else ledger.charge(analyst=analyst, loss=charge, query=query, blocks=blocks)
    tables = tuple(_measure(budgeted, run, declared) for budgeted in plan.aggregates)
""",
        new="""
    tables = tuple(_measure(budgeted, run, declared) for budgeted in plan.aggregates)
    entry = None if charge == ZERO else ledger.charge(analyst=analyst, loss=charge, query=query, blocks=blocks)
""",
        tests=NONINTERFERENCE,
        only="charge",
    ),
    Mutant(
        name="failures of the engine are paid back",
        file="kernel/release.py",
        old="    tables = tuple(_measure(budgeted, run, declared) for budgeted in plan.aggregates)\n",
        new="""    try:
        tables = tuple(_measure(budgeted, run, declared) for budgeted in plan.aggregates)
    except BackendError:
        with ledger._transaction() as connection:
            connection.execute("UPDATE account SET spent_epsilon = 0, spent_delta = 0, spent_rho = 0")
        raise
""",
        tests=NONINTERFERENCE,
        only="charged",
    ),
    Mutant(
        name="the engine's error is passed on",
        file="kernel/release.py",
        old="    with contextlib.suppress(Exception):\n        exact = run(",
        new="    with contextlib.nullcontext():\n        exact = run(",
        tests=NONINTERFERENCE,
        only="quoted",
    ),
    Mutant(
        name="charges are rounded down",
        file="kernel/accountant.py",
        old="math.ceil(loss.epsilon / EPSILON_UNIT)",
        new="math.floor(loss.epsilon / EPSILON_UNIT)",
        tests=ACCOUNTANT,
    ),
    Mutant(
        name="the limit is not part of the update",
        file="kernel/ledger_blocks.py",
        old="WHERE spent_epsilon + ? <= limit_epsilon AND spent_delta",
        new="WHERE spent_epsilon + ? >= 0 AND spent_delta",
        tests=LEDGER,
    ),
    Mutant(
        name="only the analyst's own budget counts",
        file="kernel/ledger_replay.py",
        old="for name in (DATASET, analyst) for suffix",
        new="for name in (analyst,) for suffix",
        tests=LEDGER,
    ),
    Mutant(
        name="a commit may be lost with the power",
        file="kernel/ledger_file.py",
        old='"synchronous": 3',
        new='"synchronous": 1',
        tests=LEDGER,
    ),
    Mutant(
        name="a restored ledger is answered from",
        file="kernel/ledger_book.py",
        old="        if not schema.holds(connection, newest):\n",
        new="        if False:\n",
        tests=STORES,
        only="sqlite and older",
    ),
    Mutant(
        name="the mark stays where it was",
        file="kernel/ledger_book.py",
        old="        self._marks.advance(self._terms.identity, level)\n",
        new="",
        tests=STORES,
        only="sqlite and older",
    ),
    Mutant(
        name="the mark goes back to an earlier entry",
        file="kernel/ledger_mark.py",
        old="            if newest.mark.seq < level.mark.seq:\n",
        new="            if newest.mark.seq != level.mark.seq:\n",
        tests="tests/unit/kernel/test_ledger_mark.py",
    ),
    Mutant(
        name="a mark of another ledger is believed",
        file="kernel/ledger_mark.py",
        old="        if title != TITLE.encode() or rest != [identity.encode(), _check(identity)]:\n",
        new="        if title != TITLE.encode():\n",
        tests="tests/unit/kernel/test_ledger_mark.py",
    ),
    Mutant(
        name="an accepted ledger forgets what it lost",
        file="kernel/ledger_owner.py",
        old="    return _minus(levels[0].spent, base.spent)\n",
        new="    return NOTHING\n",
        tests=STORES,
        only="sqlite and reconciling",
    ),
    Mutant(
        name="what was lost is guessed from the ledger's own head",
        file="kernel/ledger_owner.py",
        old="    return _minus(levels[0].spent, base.spent)\n",
        new="""    row = connection.execute(schema.ACCOUNT, (DATASET,)).fetchone()
    return _minus(levels[0].spent, row[4:7])
""",
        tests=STORES,
        only="both_ways",
    ),
    Mutant(
        name="what was lost is charged to the dataset alone",
        file="kernel/ledger_owner.py",
        old="    connection.execute(_LOSE, dict(",
        new="    connection.execute(_LOSE + \" WHERE name = ''\", dict(",
        tests=STORES,
        only="sqlite and reconciling",
    ),
    Mutant(
        name="a limit falls below what was spent",
        file="kernel/ledger_owner.py",
        old="    if changed < 1 or any(",
        new="    if False and any(",
        tests=STORES,
        only="sqlite and limits_may",
    ),
    Mutant(
        name="entries are believed that were not allowed",
        file="kernel/ledger_replay.py",
        old='            schema.demand(allowed, f"entry {expected} is invalid")\n',
        new="",
        tests="tests/unit/kernel/test_ledger_mark.py",
    ),
    # Blocks of rows.
    Mutant(
        name="a filter above a join or a projection counts as one on the scan",
        file="kernel/blocks.py",
        old="    while isinstance(relation, Filter):\n        conditions.append(relation.condition)\n",
        new="    while isinstance(relation, Filter) or len(sources(relation)) == 1:\n"
        "        conditions += [relation.condition] if isinstance(relation, Filter) else []\n",
        tests=BLOCKS,
    ),
    Mutant(
        name="an OR restricts to what both sides allow",
        file="kernel/blocks.py",
        old="                found |= may_hold(part, ids, type, by)\n",
        new="                found = may_hold(part, ids, type, by)\n",
        tests=BLOCKS,
    ),
    Mutant(
        name="any column of the date's type tells the block",
        file="kernel/blocks.py",
        old="if (column.name, column.type) == dated)",
        new="if column.type == dated[1])",
        tests=BLOCKS,
    ),
    Mutant(
        name="tables without blocks are charged to none",
        file="kernel/blocks.py",
        old="    if axis is None or dated is None or",
        new="    if dated is None:\n        return NONE\n    if axis is None or",
        tests=BLOCKS,
    ),
    Mutant(
        name="rows of a foreign key's owners are not read",
        file="kernel/blocks.py",
        old=" or (scan.ownership is not None and scan.ownership.path):",
        new=":",
        tests=BLOCKS,
    ),
    Mutant(
        name="the first block of a comparison is left out",
        file="kernel/blocks.py",
        old='{"lt": -1, "gt": 1}',
        new='{"lt": -1, "le": -1, "gt": 1}',
        tests=BLOCKS,
    ),
    Mutant(
        name="only the first measurement's blocks are charged",
        file="kernel/release.py",
        old="        found |= touched(budgeted.aggregate.source, declared)\n",
        new="        found |= touched(plan.aggregates[0].aggregate.source, declared)\n",
        tests=BLOCK_ATTACKS,
    ),
    Mutant(
        name="units with rows in other blocks are added or removed",
        file="kernel/declarations.py",
        old="elif not self.unit_is_row and self.neighbours is not Neighbours.REPLACE_ONE:",
        new="elif not self.privacy_unit:",
        tests=BLOCK_LEDGER,
        only="replaced",
    ),
    Mutant(
        name="a new block forgets what was charged to all",
        file="kernel/ledger_owner.py",
        old="connection.execute(schema.OPEN_ACCOUNT, (account, *amounts))",
        new="connection.execute(schema.OPEN_ACCOUNT, (account, *amounts[:3], *NOTHING))",
        tests=BLOCK_LEDGER,
    ),
    Mutant(
        name="the replay lets a new block forget what was charged to all",
        file="kernel/ledger_replay.py",
        old="self.sums.setdefault(name, self.sums[whole])",
        new="self.sums.setdefault(name, self.terms.lost)",
        tests=BLOCK_LEDGER,
    ),
    Mutant(
        name="the mark follows what was charged to all blocks alone",
        file="kernel/ledger_replay.py",
        old="return DATASET if self.axis is None else blocks.TOTAL",
        new="return DATASET",
        tests=BLOCK_LEDGER,
    ),
    Mutant(
        name="blocks beyond those that are declared cost nothing",
        file="kernel/ledger_blocks.py",
        old="    if touched is None or touched == NONE or any(",
        new="    touched = touched and touched & Touched(((axis.first, axis.last),), True)\n"
        "    if touched is None or touched == NONE or any(",
        tests=BLOCK_LEDGER,
    ),
    Mutant(
        name="a limit falls below what was spent in a block",
        file="kernel/ledger_blocks.py",
        old="    WHERE spent_epsilon <= ? AND spent_delta",
        new="    WHERE spent_epsilon + 0 * ? >= 0 AND spent_delta",
        tests=BLOCK_LEDGER,
        only="limit",
    ),
    Mutant(
        name="a commit that the server rolled back counts as done",
        file="kernel/ledger_postgres.py",
        old='    if raw.execute("COMMIT").statusmessage != "COMMIT":\n',
        new='    if raw.execute("COMMIT").statusmessage is None:\n',
        tests=STORES,
        only="rolled_back",
    ),
    Mutant(
        name="the server's writers are not held off",
        file="kernel/ledger_postgres.py",
        old="SELECT seq FROM founding FOR UPDATE",
        new="SELECT seq FROM founding",
        tests=STORES,
        only="postgres and processes or lock_that_stays",
    ),
    Mutant(
        name="the server may lose what it confirmed",
        file="kernel/ledger_postgres.py",
        old='        if value != "on":\n',
        new="        if value is None:\n",
        tests=STORES,
        only="settings_back",
    ),
    # Exact aggregates within one unit depend on the unit's rows, not on how they are stored.
    Mutant(
        name="rows that tie are left to how they are stored",
        file="backends/aggregates_sql.py",
        old='order = f"{by} {direction} NULLS LAST, {argument} ASC NULLS LAST"',
        new='order = f"{by} {direction} NULLS LAST"',
        tests=AGGREGATES,
    ),
    Mutant(
        name="texts are joined as they are stored",
        file="backends/aggregates_sql.py",
        old='{write(column.second)} ORDER BY {argument})"',
        new='{write(column.second)})"',
        tests=AGGREGATES,
    ),
    Mutant(
        name="products of pairs are added up as they are stored",
        file="backends/aggregates_sql.py",
        old="{first}, {second} ORDER BY {first}, {second})",
        new="{first}, {second})",
        tests=AGGREGATES,
    ),
    Mutant(
        name="what chooses a row is not looked at",
        file="kernel/locality.py",
        old="for part in (a.argument, a.second, a.filter)",
        new="for part in (a.argument, a.filter)",
        tests=GATE,
    ),
    Mutant(
        name="the value of any person is shown",
        file="sql/aggregates.py",
        old="*MOMENTS, *PAIRS, *CHOICES)",
        new="*MOMENTS, *PAIRS, *CHOICES, 'any_value')",
        tests="tests/cases/test_cases.py",
        only="aggregates",
    ),
    # Choices.
    Mutant(
        name="the smaller side of a quantile's target",
        file="kernel/utilities.py",
        old="return 2 * weight * max(r, q - r), 2 * weight * q",
        new="return 2 * weight * min(r, q - r), 2 * weight * q",
        tests=NEIGHBOURS,
        only="quartile or decile",
    ),
    Mutant(
        name="utilities move to one side alone",
        file="kernel/utilities.py",
        old="return 2 * weight * max(r, q - r), 2 * weight * q",
        new="return weight * max(r, q - r), 2 * weight * q",
        tests=NEIGHBOURS,
        only="median",
    ),
    Mutant(
        name="a replaced row moves a quantile like an added one",
        file="kernel/utilities.py",
        old="return 2 * weight * max(r, q - r), 2 * weight * q",
        new="return 2 * weight * max(r, q - r), 2 * weight * max(r, q - r)",
        tests=NEIGHBOURS,
        only="quartile",
    ),
    Mutant(
        name="a replaced row moves a mode like an added one",
        file="kernel/utilities.py",
        old="return weight, 2 * weight",
        new="return weight, weight",
        tests=NEIGHBOURS,
        only="mode",
    ),
    Mutant(
        name="a choice ignores in how many groups a unit is",
        file="kernel/mechanisms.py",
        old="paid = noise.loss.epsilon / moved.l1",
        new="paid = noise.loss.epsilon / moved.linf",
        tests=CHOICES,
    ),
    Mutant(
        name="a choice of half the loss more",
        file="kernel/mechanisms.py",
        old="_root_down(8 * noise.loss.rho / moved.l2_squared)",
        new="_root_down(18 * noise.loss.rho / moved.l2_squared)",
        tests=CHOICES,
    ),
    Mutant(
        name="a choice costs a quarter of its epsilon in rho",
        file="kernel/loss.py",
        old="return epsilon * epsilon / 8",
        new="return epsilon * epsilon / 32",
        tests=EXPONENTIAL,
    ),
    Mutant(
        name="all values of a unit have their full weight",
        file="backends/histogram_sql.py",
        old="{WEIGHT * most} // counted END",
        new="{WEIGHT} END",
        tests=NEIGHBOURS,
        only="median",
    ),
    Mutant(
        name="choices keep the groups that a unit may not keep",
        file="backends/private_sql.py",
        old="dropped=self._ranks",
        new="dropped=False",
        tests=NEIGHBOURS,
        only="median",
    ),
    Mutant(
        name="the choices of all groups share a draw",
        file="kernel/exponential.py",
        old="drawn = (_random_integers(groups) >>",
        new="drawn = (_random_integers(1).repeat(groups) >>",
        tests=CHOICES,
    ),
    # Losses that are computed by hand.
    Mutant(
        name="upper bounds are rounded to nearest",
        file="kernel/directed.py",
        old="return Fraction(UPWARD.next_plus(found)) if found else Fraction(0)",
        new="return Fraction(found)",
        tests=DIRECTED,
    ),
    Mutant(
        name="discrete Laplace noise has the Rényi curve of the continuous",
        file="privacy/rdp.py",
        old="return min(_raised(epsilon, inside, order), rdp_of_pure(epsilon, order))",
        new="return rdp_of_laplace(epsilon, order)",
        tests=RENYI,
    ),
    Mutant(
        name="a Rényi curve is converted with twice the delta",
        file="privacy/rdp.py",
        old="curve[order] + _overhead(order, delta)",
        new="curve[order] + _overhead(order, 2 * delta)",
        tests=RENYI,
    ),
    Mutant(
        name="groups lose in proportion to their size in rho",
        file="privacy/composition.py",
        old="rho=size * size * loss.rho",
        new="rho=size * loss.rho",
        tests=COMPOSITION,
    ),
    Mutant(
        name="the delta of a group grows in proportion to its size",
        file="privacy/composition.py",
        old="above(loss.delta * total)",
        new="above(loss.delta * size)",
        tests=COMPOSITION,
    ),
    Mutant(
        name="optimal composition forgets the deltas of the mechanisms",
        file="privacy/composition.py",
        old="_decimal(UPWARD, 1 - total_delta), _kept(delta, count)",
        new="_decimal(UPWARD, 1 - total_delta), _kept(Fraction(0), count)",
        tests=COMPOSITION,
    ),
    Mutant(
        name="a width of Gaussian noise just below what suffices",
        file="privacy/gaussian_calibration.py",
        old="    return good\n",
        new="    return bad\n",
        tests=GAUSSIAN,
    ),
    Mutant(
        name="discrete Gaussian noise of the continuous width",
        file="privacy/gaussian_calibration.py",
        old="while discrete_gaussian_delta(good, steps, epsilon) > delta:",
        new="while step < 0:",
        tests=GAUSSIAN,
    ),
    Mutant(
        name="a trade-off without what delta gives away",
        file="privacy/tradeoff.py",
        old="steep = 1 - delta - exp_up(epsilon) * false_alarms",
        new="steep = 1 - exp_up(epsilon) * false_alarms",
        tests=TRADEOFF,
    ),
    Mutant(
        name="batches with wider noise than there is",
        file="privacy/batches.py",
        old="float(1 / noise.scale)",
        new="float(1 / noise.scale) * 0.999",
        tests="tests/unit/privacy/test_batches.py",
        only="randomised_response",
    ),
    Mutant(
        name="a histogram of many values and a frequent one is an error",
        file="kernel/exponential.py",
        old="_sum(weight) >= LARGEST_UTILITY",
        new="int(weight.max()) >= LARGEST_UTILITY // len(weight)",
        tests=EXPONENTIAL,
    ),
    Mutant(
        name="utilities of heavy groups wrap around",
        file="kernel/utilities.py",
        old="numbers.astype(object)",
        new="numbers.copy()",
        tests=EXPONENTIAL,
    ),
    Mutant(
        name="candidates within reach are left out of a wide choice",
        file="kernel/exponential.py",
        old="Fraction(1, 2**52), Fraction(2**60)",
        new="Fraction(1, 2**60), Fraction(2**60)",
        tests=EXPONENTIAL,
    ),
)
