"""Functions of PostgreSQL's catalogs as macros of the engine that emulates them."""

from __future__ import annotations

import itertools
from importlib.resources import files

from dpquery.frontends.postgres.pg_catalog import series

_RESERVED = ", ".join(f"'{word}'" for word in files(__package__).joinpath("reserved.txt").read_text().split())
"""Words that are no names without quotes."""
_VISIBLE = ("pg_function_is_visible", "pg_operator_is_visible")

_NAMED = {
    "format_type(t, m)": """CASE WHEN t IS NULL THEN NULL ELSE coalesce((SELECT CASE
        WHEN m IS NULL OR m < 0 THEN mac_n.shown
        WHEN t = 1700 THEN 'numeric(' || ((m - 4) // 65536) || ',' || ((m - 4) % 65536) || ')'
        WHEN t IN (1042, 1043) THEN mac_n.shown || '(' || (m - 4) || ')'
        ELSE mac_n.shown END FROM aid.type_names AS mac_n WHERE mac_n.oid = t), '???') END""",
    "class_oid(x)": """(SELECT min(mac_n.oid) FROM aid.class_names AS mac_n
        WHERE replace(CAST(x AS VARCHAR), '"', '') IN (mac_n.plain, mac_n.full_name) OR CAST(x AS VARCHAR)
        IN (mac_n.plain, mac_n.shown, mac_n.full_name, mac_n.quoted, CAST(mac_n.oid AS VARCHAR)))""",
    "pg_table_is_visible(x)": "x IN (SELECT mac_n.oid FROM aid.class_names AS mac_n WHERE mac_n.plain IS NOT NULL)",
    "pg_type_is_visible(x)": "x IN (SELECT mac_t.oid FROM pgc.pg_type AS mac_t WHERE mac_t.typnamespace <> 13207)",
    "class_name(x)": """coalesce((SELECT mac_n.shown FROM aid.class_names AS mac_n WHERE mac_n.oid = x),
        CAST(x AS VARCHAR))""",
    "type_oid(x)": """(SELECT min(mac_n.oid) FROM aid.type_names AS mac_n
        WHERE mac_n.shown = lower(CAST(x AS VARCHAR))
        OR mac_n.name = replace(lower(CAST(x AS VARCHAR)), 'pg_catalog.', '')
        OR CAST(mac_n.oid AS VARCHAR) = CAST(x AS VARCHAR))""",
    "proc_oid(x)": """(SELECT min(mac_p.oid) FROM pgc.pg_proc AS mac_p
        WHERE mac_p.proname = replace(x, 'pg_catalog.', ''))""",
    "proc_name(x)": "coalesce((SELECT mac_p.proname FROM pgc.pg_proc AS mac_p WHERE mac_p.oid = x), '-')",
    "namespace_oid(x)": """(SELECT min(mac_s.oid) FROM pgc.pg_namespace AS mac_s
        WHERE mac_s.nspname = CAST(x AS VARCHAR) OR CAST(mac_s.oid AS VARCHAR) = CAST(x AS VARCHAR))""",
    "namespace_name(x)": """coalesce((SELECT mac_s.nspname FROM pgc.pg_namespace AS mac_s WHERE mac_s.oid = x),
        CAST(x AS VARCHAR))""",
    "to_regtype(x)": "type_oid(x)",
    "to_regclass(x)": "class_oid(x)",
    "to_regnamespace(x)": "namespace_oid(x)",
    "to_regproc(x)": "proc_oid(x)",
    "pg_get_userbyid(x)": "CASE WHEN x = 10 THEN 'dpquery' ELSE 'unknown (OID=' || x || ')' END",
    "col_description(x, y)": """(SELECT mac_d.description FROM pgc.pg_description AS mac_d
        WHERE mac_d.objoid = x AND mac_d.objsubid = y AND mac_d.classoid = 1259)""",
    "pg_encoding_to_char(x)": "CASE WHEN x = 6 THEN 'UTF8' ELSE '' END",
    "pg_char_to_encoding(x)": "CASE WHEN upper(x) IN ('UTF8', 'UTF-8') THEN 6 ELSE -1 END",
    "pg_tablespace_location(x)": "''",
    "pg_size_pretty(x)": "'0 bytes'",
    "pg_my_temp_schema()": "CAST(0 AS UINTEGER)",
    "setting_of(x)": "(SELECT mac_s.setting FROM pgc.pg_settings AS mac_s WHERE mac_s.name = lower(x))",
    "pg_advisory_unlock_all()": "CAST('' AS VARCHAR)",
    "txid_current()": "CAST(1 AS BIGINT)",
    "pg_stat_get_numscans(x)": "CAST(0 AS BIGINT)",
    "quote_ident(x)": f"""CASE WHEN regexp_matches(x, '^[a-z_][a-z0-9_]*$') AND x NOT IN ({_RESERVED}) THEN x
        ELSE '"' || replace(x, '"', '""') || '"' END""",
    "quote_literal(x)": "'''' || replace(CAST(x AS VARCHAR), '''', '''''') || ''''",
    "array_upper(a, d)": "CASE WHEN len(a) > 0 THEN CAST(len(a) AS INTEGER) END",
    "array_lower(a, d)": "CASE WHEN len(a) > 0 THEN 1 END",
    "array_ndims(a)": "CASE WHEN len(a) > 0 THEN 1 END",
    "_pg_expandarray(a)": "unnest(list_transform(a, lambda x, i: {'x': x, 'n': CAST(i AS INTEGER)}))",
    "_pg_char_max_length(t, m)": "CASE WHEN m < 0 THEN NULL WHEN t IN (1042, 1043) THEN m - 4 END",
    "_pg_numeric_precision(t, m)": """CASE t WHEN 21 THEN 16 WHEN 23 THEN 32 WHEN 20 THEN 64 WHEN 700 THEN 24
        WHEN 701 THEN 53 WHEN 1700 THEN CASE WHEN m >= 4 THEN (m - 4) // 65536 END END""",
    "_pg_numeric_scale(t, m)": """CASE WHEN t IN (20, 21, 23) THEN 0
        WHEN t = 1700 AND m >= 4 THEN (m - 4) % 65536 END""",
    "_pg_datetime_precision(t, m)": "CASE WHEN t = 1082 THEN 0 WHEN t IN (1083, 1114, 1184, 1186) THEN 6 END",
    "pg_sequence_last_value(x)": "CAST(NULL AS BIGINT)",
    "pg_blocking_pids(x)": "CAST([] AS INTEGER[])",
}

_CONSTANT = {
    "false": (
        *("pg_terminate_backend(x)", "pg_cancel_backend(x)", "pg_relation_is_publishable(x)"),
        *("pg_is_in_recovery()", "pg_is_other_temp_schema(x)", "row_security_active(x)"),
        *("pg_column_is_updatable(x, y, z)",),
    ),
    "CAST(NULL AS VARCHAR)": (
        *("shobj_description(x, y)", "pg_get_partkeydef(x)", "pg_get_statisticsobjdef_columns(x)"),
        *("pg_get_function_result(x)", "pg_get_function_arguments(x)", "pg_get_function_identity_arguments(x)"),
        *("pg_get_functiondef(x)", "pg_get_function_sqlbody(x)", "pg_get_triggerdef(x)", "pg_get_ruledef(x)"),
        *("pg_get_serial_sequence(x, y)", "inet_server_addr()", "inet_client_addr()", "pg_get_viewdef_of(x)"),
    ),
    "true": (
        *("pg_collation_is_visible(x)", "pg_opclass_is_visible(x)", "pg_opfamily_is_visible(x)"),
        *("pg_conversion_is_visible(x)", "pg_ts_config_is_visible(x)", "pg_ts_dict_is_visible(x)"),
        *("pg_ts_parser_is_visible(x)", "pg_ts_template_is_visible(x)", "pg_statistics_obj_is_visible(x)"),
    ),
    "TIMESTAMP '2000-01-01 00:00:00'": (*("pg_postmaster_start_time()", "pg_conf_load_time()"),),
    "CAST(NULL AS INTEGER)": (*("inet_server_port()", "inet_client_port()"),),
}
"""Functions that always return the same here, by what they return."""

_OBJECT = """(SELECT min(mac_d.description) FROM pgc.pg_description AS mac_d
    WHERE mac_d.objoid = x AND mac_d.objsubid = 0)"""

_VARIANTS: dict[str, tuple[tuple[str, str], ...]] = {
    "obj_description": (("x", _OBJECT), ("x, y", _OBJECT)),
    "pg_get_expr": (("x, y", "CAST(x AS VARCHAR)"), ("x, y, z", "CAST(x AS VARCHAR)")),
    "pg_get_viewdef": (("x", "CAST(NULL AS VARCHAR)"), ("x, y", "CAST(NULL AS VARCHAR)")),
    "pg_get_constraintdef": (
        ("x", "(SELECT mac_c.shown FROM aid.constraints AS mac_c WHERE mac_c.oid = x)"),
        ("x, y", "(SELECT mac_c.shown FROM aid.constraints AS mac_c WHERE mac_c.oid = x)"),
    ),
    "pg_get_indexdef": (
        ("x", "(SELECT mac_i.shown FROM aid.indexes AS mac_i WHERE mac_i.oid = x AND mac_i.place = 0)"),
        ("x, y, z", "(SELECT mac_i.shown FROM aid.indexes AS mac_i WHERE mac_i.oid = x AND mac_i.place = y)"),
    ),
    "array_length": (("a, d", "CASE WHEN len(a) > 0 THEN CAST(len(a) AS INTEGER) END"),),
    "pg_database_size": (("x", "CAST(0 AS BIGINT)"),),
    "pg_relation_size": (("x", "CAST(0 AS BIGINT)"), ("x, y", "CAST(0 AS BIGINT)")),
    "pg_table_size": (("x", "CAST(0 AS BIGINT)"),),
    "pg_total_relation_size": (("x", "CAST(0 AS BIGINT)"),),
    "pg_indexes_size": (("x", "CAST(0 AS BIGINT)"),),
    "pg_tablespace_size": (("x", "CAST(0 AS BIGINT)"),),
    "_pg_truetypid": (("a, t", "CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE a.atttypid END"),),
    "_pg_truetypmod": (("a, t", "CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END"),),
}

_YES = ("has_schema_privilege", "has_database_privilege", "pg_has_role", "has_type_privilege", "has_language_privilege")
_NO = ("has_function_privilege", "has_sequence_privilege", "has_tablespace_privilege")
_SELECT_ONLY = ("has_table_privilege", "has_any_column_privilege")

TABLES = {
    "pg_get_keywords()": "SELECT * FROM (VALUES ('select', 'R', 'reserved'), ('from', 'R', 'reserved'), "
    "('where', 'R', 'reserved'), ('group', 'R', 'reserved'), ('order', 'R', 'reserved'), ('limit', 'R', 'reserved'), "
    "('having', 'R', 'reserved'), ('union', 'R', 'reserved'), ('with', 'R', 'reserved')) AS k(word, catcode, catdesc)",
    "pg_show_all_settings()": "SELECT * FROM pgc.pg_settings",
    "pg_get_publication_tables(x)": "SELECT CAST(NULL AS UINTEGER) AS relid WHERE false",
    "pg_timezone_names()": "SELECT 'UTC' AS name, 'UTC' AS abbrev, '00:00:00' AS utc_offset, false AS is_dst",
    "pg_partition_ancestors(x)": "SELECT CAST(NULL AS UINTEGER) AS relid WHERE false",
    "pg_partition_tree(x)": "SELECT CAST(NULL AS UINTEGER) AS relid, CAST(NULL AS UINTEGER) AS parentrelid, "
    "true AS isleaf, 0 AS level WHERE false",
    "pg_lock_status()": "SELECT * FROM pgc.pg_locks",
}


def macros() -> list[str]:
    """Returns the statements that make all macros; those with several counts of arguments hold all of them."""
    made = [f"CREATE MACRO {head} AS {body}" for head, body in (_NAMED | series.MACROS).items()]
    made += [f"CREATE MACRO {head} AS {body}" for body, heads in _CONSTANT.items() for head in heads]
    for name, forms in _VARIANTS.items():
        made.append(f"CREATE MACRO {name} " + ", ".join(f"({arguments}) AS {body}" for arguments, body in forms))
    made += [f"CREATE MACRO {name}(x) AS x IS NOT NULL" for name in _VISIBLE]
    made += [f"CREATE MACRO {name} (x, y) AS true, (x, y, z) AS true" for name in _YES]
    two, three = (f"regexp_matches(upper({last}), 'SELECT')" for last in ("y", "z"))
    made += [f"CREATE MACRO {name} (x, y) AS {two}, (x, y, z) AS {three}" for name in _SELECT_ONLY]
    made.append(f"CREATE MACRO has_column_privilege (x, y, z) AS {three}, (w, x, y, z) AS {three}")
    made += [f"CREATE MACRO {name} (x, y) AS false, (x, y, z) AS false" for name in _NO]
    made += [f"CREATE MACRO {head} AS TABLE {body}" for head, body in TABLES.items()]
    return made


def names() -> frozenset[str]:
    """Returns the names of all macros that statements may call."""
    made = (
        {head.split("(")[0] for head in (*_NAMED, *TABLES, *itertools.chain(*_CONSTANT.values()))}
        | set(_VARIANTS)
        | set(_VISIBLE)
        | set(_YES)
    )
    return frozenset(made | set(_SELECT_ONLY) | set(_NO) | {"has_column_privilege"})
