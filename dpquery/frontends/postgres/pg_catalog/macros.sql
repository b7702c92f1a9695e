-- Functions of PostgreSQL's catalogs, as macros of the engine that emulates them; statements may call all of them.
-- A word in braces is put in when they are made.

CREATE MACRO format_type(t, m) AS CASE WHEN t IS NULL THEN NULL WHEN t = 0 THEN '-' ELSE coalesce((SELECT CASE
    WHEN m IS NULL OR m < 0 THEN mac_n.shown
    WHEN t = 1700 THEN 'numeric(' || ((m - 4) // 65536) || ',' || ((m - 4) % 65536) || ')'
    WHEN t IN (1042, 1043) THEN mac_n.shown || '(' || (m - 4) || ')'
    ELSE mac_n.shown END FROM aid.type_names AS mac_n WHERE mac_n.oid = t), '???') END;
CREATE MACRO class_oid(x) AS (SELECT min(mac_n.oid) FROM aid.class_names AS mac_n
    WHERE replace(CAST(x AS VARCHAR), '"', '') IN (mac_n.plain, mac_n.full_name) OR CAST(x AS VARCHAR)
    IN (mac_n.plain, mac_n.shown, mac_n.full_name, mac_n.quoted, CAST(mac_n.oid AS VARCHAR)));
CREATE MACRO pg_table_is_visible(x) AS x IN (SELECT mac_n.oid FROM aid.class_names AS mac_n WHERE mac_n.plain IS NOT NULL);
CREATE MACRO pg_type_is_visible(x) AS x IN (SELECT mac_t.oid FROM pgc.pg_type AS mac_t WHERE mac_t.typnamespace <> 13207);
CREATE MACRO class_name(x) AS coalesce((SELECT mac_n.shown FROM aid.class_names AS mac_n WHERE mac_n.oid = x),
    CAST(x AS VARCHAR));
CREATE MACRO type_oid(x) AS (SELECT min(mac_n.oid) FROM aid.type_names AS mac_n
    WHERE mac_n.shown = lower(CAST(x AS VARCHAR))
    OR mac_n.name = replace(lower(CAST(x AS VARCHAR)), 'pg_catalog.', '')
    OR CAST(mac_n.oid AS VARCHAR) = CAST(x AS VARCHAR));
CREATE MACRO proc_oid(x) AS (SELECT min(mac_p.oid) FROM pgc.pg_proc AS mac_p
    WHERE mac_p.proname = replace(x, 'pg_catalog.', ''));
CREATE MACRO proc_name(x) AS coalesce((SELECT mac_p.proname FROM pgc.pg_proc AS mac_p WHERE mac_p.oid = x), '-');
CREATE MACRO namespace_oid(x) AS (SELECT min(mac_s.oid) FROM pgc.pg_namespace AS mac_s
    WHERE mac_s.nspname = CAST(x AS VARCHAR) OR CAST(mac_s.oid AS VARCHAR) = CAST(x AS VARCHAR));
CREATE MACRO namespace_name(x) AS coalesce((SELECT mac_s.nspname FROM pgc.pg_namespace AS mac_s WHERE mac_s.oid = x),
    CAST(x AS VARCHAR));
CREATE MACRO to_regtype(x) AS type_oid(x);
CREATE MACRO to_regclass(x) AS class_oid(x);
CREATE MACRO to_regnamespace(x) AS namespace_oid(x);
CREATE MACRO to_regproc(x) AS proc_oid(x);
CREATE MACRO pg_get_userbyid(x) AS CASE WHEN x = 10 THEN 'dpquery' ELSE 'unknown (OID=' || x || ')' END;
CREATE MACRO col_description(x, y) AS (SELECT mac_d.description FROM pgc.pg_description AS mac_d
    WHERE mac_d.objoid = x AND mac_d.objsubid = y AND mac_d.classoid = 1259);
CREATE MACRO pg_encoding_to_char(x) AS CASE WHEN x = 6 THEN 'UTF8' ELSE '' END;
CREATE MACRO pg_char_to_encoding(x) AS CASE WHEN upper(x) IN ('UTF8', 'UTF-8') THEN 6 ELSE -1 END;
CREATE MACRO pg_tablespace_location(x) AS '';
CREATE MACRO pg_size_pretty(x) AS '0 bytes';
CREATE MACRO pg_my_temp_schema() AS CAST(0 AS UINTEGER);
CREATE MACRO setting_of(x) AS (SELECT mac_s.setting FROM pgc.pg_settings AS mac_s WHERE mac_s.name = lower(x));
CREATE MACRO pg_advisory_unlock_all() AS CAST('' AS VARCHAR);
CREATE MACRO txid_current() AS CAST(1 AS BIGINT);
CREATE MACRO pg_stat_get_numscans(x) AS CAST(0 AS BIGINT);
CREATE MACRO quote_ident(x) AS CASE WHEN regexp_matches(x, '^[a-z_][a-z0-9_]*$') AND x NOT IN ({reserved}) THEN x
    ELSE '"' || replace(x, '"', '""') || '"' END;
CREATE MACRO quote_literal(x) AS '''' || replace(CAST(x AS VARCHAR), '''', '''''') || '''';
CREATE MACRO array_upper(a, d) AS CASE WHEN len(a) > 0 THEN CAST(len(a) AS INTEGER) END;
CREATE MACRO array_lower(a, d) AS CASE WHEN len(a) > 0 THEN 1 END;
CREATE MACRO array_ndims(a) AS CASE WHEN len(a) > 0 THEN 1 END;
CREATE MACRO _pg_expandarray(a) AS unnest(list_transform(a, lambda x, i: {'x': x, 'n': CAST(i AS INTEGER)}));
CREATE MACRO _pg_char_max_length(t, m) AS CASE WHEN m < 0 THEN NULL WHEN t IN (1042, 1043) THEN m - 4 END;
CREATE MACRO _pg_numeric_precision(t, m) AS CASE t WHEN 21 THEN 16 WHEN 23 THEN 32 WHEN 20 THEN 64 WHEN 700 THEN 24
    WHEN 701 THEN 53 WHEN 1700 THEN CASE WHEN m >= 4 THEN (m - 4) // 65536 END END;
CREATE MACRO _pg_numeric_scale(t, m) AS CASE WHEN t IN (20, 21, 23) THEN 0
    WHEN t = 1700 AND m >= 4 THEN (m - 4) % 65536 END;
CREATE MACRO _pg_datetime_precision(t, m) AS CASE WHEN t = 1082 THEN 0 WHEN t IN (1083, 1114, 1184, 1186) THEN 6 END;
CREATE MACRO type_names(a) AS (SELECT list(mac_n.shown ORDER BY mac_t.place)
    FROM (SELECT unnest(a) AS oid, generate_subscripts(a, 1) AS place) AS mac_t
    JOIN aid.type_names AS mac_n ON mac_n.oid = mac_t.oid);
CREATE MACRO aclexplode(a) AS unnest(list_transform(a, lambda x: {'grantor': CAST(10 AS UINTEGER),
    'grantee': CAST(0 AS UINTEGER), 'privilege_type': 'SELECT', 'is_grantable': false})); -- of ['=r/dpquery']
CREATE MACRO acldefault(x, y) AS CAST(NULL AS VARCHAR[]);
CREATE MACRO row_to_json(x) AS to_json(x);
CREATE MACRO bpchar(x) AS CAST(x AS VARCHAR);
CREATE MACRO encode(x, y) AS CASE lower(y) WHEN 'hex' THEN lower(hex(x)) WHEN 'base64' THEN to_base64(x)
    ELSE CAST(x AS VARCHAR) END;
CREATE MACRO pg_sequence_last_value(x) AS CAST(NULL AS BIGINT);
CREATE MACRO pg_blocking_pids(x) AS CAST([] AS INTEGER[]);

-- Functions that always return the same here.
CREATE MACRO pg_terminate_backend(x) AS false;
CREATE MACRO pg_cancel_backend(x) AS false;
CREATE MACRO pg_relation_is_publishable(x) AS false;
CREATE MACRO pg_is_in_recovery() AS false;
CREATE MACRO pg_is_other_temp_schema(x) AS false;
CREATE MACRO row_security_active(x) AS false;
CREATE MACRO pg_column_is_updatable(x, y, z) AS false;
CREATE MACRO shobj_description(x, y) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_get_partkeydef(x) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_get_statisticsobjdef_columns(x) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_get_function_result(x) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_get_function_arguments(x) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_get_function_identity_arguments(x) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_get_functiondef(x) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_get_function_sqlbody(x) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_get_serial_sequence(x, y) AS CAST(NULL AS VARCHAR);
CREATE MACRO inet_server_addr() AS CAST(NULL AS VARCHAR);
CREATE MACRO inet_client_addr() AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_get_viewdef_of(x) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_collation_is_visible(x) AS true;
CREATE MACRO pg_opclass_is_visible(x) AS true;
CREATE MACRO pg_opfamily_is_visible(x) AS true;
CREATE MACRO pg_conversion_is_visible(x) AS true;
CREATE MACRO pg_ts_config_is_visible(x) AS true;
CREATE MACRO pg_ts_dict_is_visible(x) AS true;
CREATE MACRO pg_ts_parser_is_visible(x) AS true;
CREATE MACRO pg_ts_template_is_visible(x) AS true;
CREATE MACRO pg_statistics_obj_is_visible(x) AS true;
CREATE MACRO pg_postmaster_start_time() AS TIMESTAMP '2000-01-01 00:00:00';
CREATE MACRO pg_conf_load_time() AS TIMESTAMP '2000-01-01 00:00:00';
CREATE MACRO inet_server_port() AS CAST(NULL AS INTEGER);
CREATE MACRO inet_client_port() AS CAST(NULL AS INTEGER);
CREATE MACRO pg_function_is_visible(x) AS x IS NOT NULL;
CREATE MACRO pg_operator_is_visible(x) AS x IS NOT NULL;
CREATE MACRO has_schema_privilege (x, y) AS true, (x, y, z) AS true;
CREATE MACRO has_database_privilege (x, y) AS true, (x, y, z) AS true;
CREATE MACRO pg_has_role (x, y) AS true, (x, y, z) AS true;
CREATE MACRO has_type_privilege (x, y) AS true, (x, y, z) AS true;
CREATE MACRO has_language_privilege (x, y) AS true, (x, y, z) AS true;
CREATE MACRO has_function_privilege (x, y) AS false, (x, y, z) AS false;
CREATE MACRO has_sequence_privilege (x, y) AS false, (x, y, z) AS false;
CREATE MACRO has_tablespace_privilege (x, y) AS false, (x, y, z) AS false;

-- Functions with several counts of arguments; a table may be read and nothing more.
CREATE MACRO has_table_privilege (x, y) AS regexp_matches(upper(y), 'SELECT'), (x, y, z) AS regexp_matches(upper(z), 'SELECT');
CREATE MACRO has_any_column_privilege (x, y) AS regexp_matches(upper(y), 'SELECT'), (x, y, z) AS regexp_matches(upper(z), 'SELECT');
CREATE MACRO has_column_privilege (x, y, z) AS regexp_matches(upper(z), 'SELECT'), (w, x, y, z) AS regexp_matches(upper(z), 'SELECT');
CREATE MACRO obj_description
    (x) AS (SELECT min(mac_d.description) FROM pgc.pg_description AS mac_d WHERE mac_d.objoid = x AND mac_d.objsubid = 0),
    (x, y) AS (SELECT min(mac_d.description) FROM pgc.pg_description AS mac_d WHERE mac_d.objoid = x AND mac_d.objsubid = 0);
CREATE MACRO pg_get_expr (x, y) AS CAST(x AS VARCHAR), (x, y, z) AS CAST(x AS VARCHAR);
CREATE MACRO pg_get_triggerdef (x) AS CAST(NULL AS VARCHAR), (x, y) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_get_ruledef (x) AS CAST(NULL AS VARCHAR), (x, y) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_get_viewdef (x) AS CAST(NULL AS VARCHAR), (x, y) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_get_constraintdef
    (x) AS (SELECT mac_c.shown FROM aid.constraints AS mac_c WHERE mac_c.oid = x),
    (x, y) AS (SELECT mac_c.shown FROM aid.constraints AS mac_c WHERE mac_c.oid = x);
CREATE MACRO pg_get_indexdef
    (x) AS (SELECT mac_i.shown FROM aid.indexes AS mac_i WHERE mac_i.oid = x AND mac_i.place = 0),
    (x, y, z) AS (SELECT mac_i.shown FROM aid.indexes AS mac_i WHERE mac_i.oid = x AND mac_i.place = y);
CREATE MACRO array_length (a, d) AS CASE WHEN len(a) > 0 THEN CAST(len(a) AS INTEGER) END;
CREATE MACRO pg_database_size (x) AS CAST(0 AS BIGINT);
CREATE MACRO pg_relation_size (x) AS CAST(0 AS BIGINT), (x, y) AS CAST(0 AS BIGINT);
CREATE MACRO pg_table_size (x) AS CAST(0 AS BIGINT);
CREATE MACRO pg_total_relation_size (x) AS CAST(0 AS BIGINT);
CREATE MACRO pg_indexes_size (x) AS CAST(0 AS BIGINT);
CREATE MACRO pg_tablespace_size (x) AS CAST(0 AS BIGINT);
CREATE MACRO _pg_truetypid (a, t) AS CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE a.atttypid END;
CREATE MACRO _pg_truetypmod (a, t) AS CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END;

-- Functions that give tables.
CREATE MACRO pg_get_keywords() AS TABLE
    SELECT * FROM (VALUES ('select', 'R', 'reserved'), ('from', 'R', 'reserved'), ('where', 'R', 'reserved'),
    ('group', 'R', 'reserved'), ('order', 'R', 'reserved'), ('limit', 'R', 'reserved'), ('having', 'R', 'reserved'),
    ('union', 'R', 'reserved'), ('with', 'R', 'reserved')) AS k(word, catcode, catdesc);
CREATE MACRO pg_available_extensions() AS TABLE
    SELECT name, default_version, comment FROM pgc.pg_available_extensions;
CREATE MACRO pg_show_all_settings() AS TABLE SELECT * FROM pgc.pg_settings;
CREATE MACRO pg_get_publication_tables(x) AS TABLE SELECT CAST(NULL AS UINTEGER) AS relid WHERE false;
CREATE MACRO pg_timezone_names() AS TABLE
    SELECT 'UTC' AS name, 'UTC' AS abbrev, '00:00:00' AS utc_offset, false AS is_dst;
CREATE MACRO pg_partition_ancestors(x) AS TABLE SELECT CAST(NULL AS UINTEGER) AS relid WHERE false;
CREATE MACRO pg_partition_tree(x) AS TABLE
    SELECT CAST(NULL AS UINTEGER) AS relid, CAST(NULL AS UINTEGER) AS parentrelid, true AS isleaf, 0 AS level WHERE
    false;
CREATE MACRO pg_lock_status() AS TABLE SELECT * FROM pgc.pg_locks;
