"""Functions that statements over the catalogs, and statements without tables, may call; all others are refused."""

from __future__ import annotations

from sqlglot import exp

from dpquery.frontends.postgres.pg_catalog import macros

_CLASSES: tuple[type[exp.Expr], ...] = (
    exp.Connector,
    exp.Case,
    exp.If,
    exp.Cast,
    exp.Coalesce,
    exp.Nullif,
    exp.Greatest,
    exp.Least,
    exp.Count,
    exp.Sum,
    exp.Min,
    exp.Max,
    exp.Avg,
    exp.LogicalAnd,
    exp.LogicalOr,
    exp.ArrayAgg,
    exp.GroupConcat,
    exp.Array,
    exp.ArrayToString,
    exp.ArraySize,
    exp.ArrayConcat,
    exp.ArrayContains,
    exp.ArrayContainsAll,
    exp.ArrayAppend,
    exp.StringToArray,
    exp.Explode,
    exp.Unnest,
    exp.GenerateSeries,
    exp.ExplodingGenerateSeries,
    exp.RowNumber,
    exp.Rank,
    exp.DenseRank,
    exp.Lower,
    exp.Upper,
    exp.Initcap,
    exp.Length,
    exp.Substring,
    exp.Left,
    exp.Right,
    exp.Trim,
    exp.Concat,
    exp.ConcatWs,
    exp.DPipe,
    exp.Replace,
    exp.StrPosition,
    exp.SplitPart,
    exp.StartsWith,
    exp.RegexpLike,
    exp.RegexpILike,
    exp.RegexpReplace,
    exp.Format,
    exp.Extract,
    exp.DateTrunc,
    exp.TimestampTrunc,
    exp.CurrentDate,
    exp.CurrentTimestamp,
    exp.CurrentUser,
    exp.CurrentSchema,
    exp.CurrentSchemas,
    exp.CurrentCatalog,
    exp.SessionUser,
    exp.CurrentDatabase,
    exp.CurrentVersion,
    exp.Abs,
    exp.Ceil,
    exp.Floor,
    exp.Round,
    exp.Sign,
    exp.Sqrt,
    exp.Pow,
    exp.Exp,
    exp.Ln,
    exp.Mod,
    exp.Exists,
    exp.Any,
    exp.All,
    exp.JSONObject,
    exp.TimeToStr,
    exp.Filter,
    exp.Collate,
    exp.WithinGroup,
)

_NAMES = frozenset(
    {
        *("version", "current_database", "current_schema", "current_schemas", "current_setting", "set_config"),
        *(
            "pg_advisory_unlock_all",
            "pg_backend_pid",
            "array_agg",
            "string_agg",
            "array_position",
            "generate_subscripts",
            "unnest",
            "now",
        ),
        *("quote_ident", "format", "row_number", "cardinality", "getdatabaseencoding", "session_user", "current_user"),
        *("statement_timestamp", "transaction_timestamp", "clock_timestamp", "generate_series", "json_build_object"),
        *("btrim", "ltrim", "rtrim", "regexp_replace", "concat", "any", "all", "some", "json_object", "user"),
        *(
            "array_to_string",
            "array_length",
            "lower",
            "upper",
            "length",
            "char_length",
            "substring",
            "substr",
            "replace",
        ),
        *(
            "coalesce",
            "nullif",
            "left",
            "right",
            "split_part",
            "strpos",
            "starts_with",
            "concat_ws",
            "count",
            "max",
            "min",
        ),
        *(
            "sum",
            "array_append",
            "array_cat",
            "string_to_array",
            "abs",
            "round",
            "bool_and",
            "bool_or",
            "upper",
            "float4",
        ),
    }
)
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
