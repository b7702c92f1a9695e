"""Functions that statements over the catalogs, and statements without tables, may call; all others are refused."""

from __future__ import annotations

from sqlglot import exp

from dpquery.frontends.postgres.pg_catalog import macros

_CLASS_NAMES = """
    Connector Case If Cast Coalesce Nullif Greatest Least Count Sum Min Max Avg LogicalAnd LogicalOr ArrayAgg
    GroupConcat Array ArrayToString ArraySize ArrayConcat ArrayContains ArrayContainsAll ArrayAppend StringToArray
    Explode Unnest GenerateSeries ExplodingGenerateSeries RowNumber Rank DenseRank Lower Upper Initcap Length
    Substring Left Right Trim Concat ConcatWs DPipe Replace StrPosition SplitPart StartsWith RegexpLike RegexpILike
    RegexpReplace Format Extract DateTrunc TimestampTrunc CurrentDate CurrentTimestamp CurrentUser CurrentSchema
    CurrentSchemas CurrentCatalog SessionUser CurrentDatabase CurrentVersion Abs Ceil Floor Round Sign Sqrt Pow Exp
    Ln Mod Exists Any All JSONObject TimeToStr Filter Collate WithinGroup
"""
_CLASSES: tuple[type[exp.Expr], ...] = tuple(getattr(exp, name) for name in _CLASS_NAMES.split())

_OTHER_NAMES = """
    version current_database current_schema current_schemas current_setting set_config pg_advisory_unlock_all
    pg_backend_pid array_agg string_agg array_position generate_subscripts unnest now quote_ident format row_number
    cardinality getdatabaseencoding session_user current_user statement_timestamp transaction_timestamp
    clock_timestamp generate_series json_build_object btrim ltrim rtrim regexp_replace concat any all some
    json_object user array_to_string array_length lower upper length char_length substring substr replace coalesce
    nullif left right split_part strpos starts_with concat_ws count max min sum array_append array_cat
    string_to_array abs round bool_and bool_or float4
"""
_NAMES = frozenset(_OTHER_NAMES.split())
"""Functions that the parser has no class for."""
_FROM = frozenset({"generate_series", "unnest", "generate_subscripts", *(h.split("(")[0] for h in macros.TABLES)})

_FROM_CLASSES = (exp.GenerateSeries, exp.ExplodingGenerateSeries, exp.Explode, exp.Unnest)


def refused_function(tree: exp.Expr) -> exp.Expr | None:
    """Returns the first call of a function that is not allowed, or None."""
    known = _NAMES | macros.names()
    for node in tree.walk():
        if isinstance(node, exp.Anonymous):
            if str(node.this).lower() not in known:
                return node
        elif isinstance(node, exp.Func) and not isinstance(node, _CLASSES):
            return node
        elif isinstance(node, exp.Table) and not isinstance(node.this, exp.Identifier):
            name = node.this.name.lower() if isinstance(node.this, exp.Anonymous) else node.this.sql_name().lower()
            if name not in _FROM and not isinstance(node.this, _FROM_CLASSES):
                return node
    return None
