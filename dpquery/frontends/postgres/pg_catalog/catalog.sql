-- PostgreSQL's system catalogs and information_schema, filled from the tables of the schema aid: what is declared
-- (relations, columns, about, settings), and PostgreSQL's own types and functions. Columns without a value have their
-- default. Comes after macros.sql.

INSERT INTO pgc.pg_namespace BY NAME SELECT oid, nspname, 10 AS nspowner FROM (VALUES
    (11, 'pg_catalog'), (2200, 'public'), (13207, 'information_schema'), (16390, 'dp'), (16391, 'synopsis'))
        AS n(oid, nspname)
    WHERE nspname <> 'synopsis' OR EXISTS (SELECT 1 FROM aid.relations AS r WHERE r.schema = 'synopsis');
INSERT INTO pgc.pg_proc BY NAME
    SELECT oid, proname, 11 AS pronamespace, 10 AS proowner, 'f' AS prokind FROM aid.procs;
INSERT INTO pgc.pg_type BY NAME SELECT t.* REPLACE (
        coalesce((SELECT p.oid FROM aid.procs AS p WHERE p.proname = t.typinput), '0') AS typinput,
        coalesce((SELECT p.oid FROM aid.procs AS p WHERE p.proname = t.typoutput), '0') AS typoutput,
        coalesce((SELECT p.oid FROM aid.procs AS p WHERE p.proname = t.typreceive), '0') AS typreceive,
        coalesce((SELECT p.oid FROM aid.procs AS p WHERE p.proname = t.typsend), '0') AS typsend,
        typbyval = 't' AS typbyval, typispreferred = 't' AS typispreferred),
        true AS typisdefined, 10 AS typowner, false AS typnotnull,
        CASE WHEN typcategory = 'S' AND oid <> '19' THEN 100 ELSE 0 END AS typcollation
    FROM aid.types AS t;
INSERT INTO pgc.pg_class BY NAME SELECT r.oid, r.name AS relname, n.oid AS relnamespace, r.kind AS relkind,
        (SELECT count(*) FROM aid.columns AS c WHERE c.relation = r.oid) AS relnatts,
        CASE WHEN r.kind = 'r' THEN 2 ELSE 0 END AS relam, 10 AS relowner, -1 AS reltuples, 'p' AS relpersistence,
        true AS relispopulated, 'd' AS relreplident,
        CASE WHEN r.schema IN ('public', 'synopsis') THEN ['=r/dpquery'] END AS relacl -- everybody may ask about it, and nothing more
    FROM aid.relations AS r JOIN pgc.pg_namespace AS n ON n.nspname = r.schema ORDER BY r.rowid;
INSERT INTO pgc.pg_tables BY NAME SELECT schema AS schemaname, name AS tablename, 'dpquery' AS tableowner
    FROM aid.relations WHERE kind = 'r' ORDER BY rowid;
INSERT INTO pgc.pg_views BY NAME SELECT schema AS schemaname, name AS viewname, 'dpquery' AS viewowner
    FROM aid.relations WHERE kind = 'v' ORDER BY rowid;
INSERT INTO pgc.pg_attribute BY NAME SELECT c.relation AS attrelid, c.number AS attnum, c.name AS attname,
        c.type AS atttypid, c.typmod AS atttypmod, coalesce(t.typlen, -1) AS attlen, NOT c.is_nullable AS attnotnull,
        CASE WHEN c.type = 25 THEN 100 ELSE 0 END AS attcollation, true AS attislocal, 'd' AS attalign,
        'p' AS attstorage, -1 AS attstattarget, '' AS attidentity, '' AS attgenerated, '' AS attcompression
    FROM aid.columns AS c LEFT JOIN pgc.pg_type AS t ON t.oid = c.type ORDER BY c.rowid;
INSERT INTO pgc.pg_description BY NAME
    SELECT 2200 AS objoid, 2615 AS classoid, 0 AS objsubid, comment AS description FROM aid.about
    UNION ALL SELECT oid, 1259, 0, comment FROM aid.relations WHERE comment IS NOT NULL
    UNION ALL SELECT relation, 1259, number, comment FROM aid.columns WHERE comment IS NOT NULL;

INSERT INTO pgc.pg_am BY NAME SELECT * FROM (VALUES
    (2, 'heap', 't'), (403, 'btree', 'i'), (405, 'hash', 'i')) AS a(oid, amname, amtype);
INSERT INTO pgc.pg_collation BY NAME SELECT *, 11 AS collnamespace FROM (VALUES (100, 'default', 'd', -1),
    (950, 'C', 'c', -1), (951, 'POSIX', 'c', -1)) AS c(oid, collname, collprovider, collencoding);
INSERT INTO pgc.pg_language BY NAME SELECT *, 10 AS lanowner FROM (VALUES
    (12, 'internal', false), (13, 'c', false), (14, 'sql', true)) AS l(oid, lanname, lanpltrusted);
INSERT INTO pgc.pg_tablespace BY NAME SELECT *, 10 AS spcowner FROM (VALUES
    (1663, 'pg_default'), (1664, 'pg_global')) AS s(oid, spcname);
INSERT INTO pgc.pg_database BY NAME SELECT 16384 AS oid, dataset AS datname, 10 AS datdba, 6 AS encoding,
        'c' AS datlocprovider, true AS datallowconn, -1 AS datconnlimit, 1663 AS dattablespace, 'C' AS datcollate,
        (SELECT setting FROM aid.settings WHERE name = 'lc_ctype') AS datctype
    FROM aid.about;
INSERT INTO pgc.pg_roles BY NAME SELECT 10 AS oid, 'dpquery' AS rolname, false AS rolcanlogin, true AS rolinherit,
        -1 AS rolconnlimit, '********' AS rolpassword
    UNION ALL SELECT role, analyst, true, true, -1, '********' FROM aid.about;
INSERT INTO pgc.pg_user BY NAME SELECT oid AS usesysid, rolname AS usename, rolpassword AS passwd FROM pgc.pg_roles;
INSERT INTO pgc.pg_settings BY NAME SELECT name, setting, 'dpquery' AS category, 'user' AS context,
    'string' AS vartype, 'default' AS source FROM aid.settings;

CREATE TABLE aid.public_names AS SELECT * FROM (VALUES ('int8', 'bigint'), ('int4', 'integer'), ('int2', 'smallint'),
    ('bool', 'boolean'), ('float8', 'double precision'), ('float4', 'real'), ('varchar', 'character varying'),
    ('bpchar', 'character'), ('timestamp', 'timestamp without time zone'), ('timestamptz', 'timestamp with time zone'),
    ('time', 'time without time zone'), ('timetz', 'time with time zone'), ('varbit', 'bit varying'),
    ('char', '"char"')) AS n(name, shown);
-- What the macros look up: types and relations by the names that people write, and are shown.

INSERT INTO aid.type_names SELECT t.oid, t.typname, CASE WHEN e.oid IS NOT NULL AND t.typcategory = 'A'
        THEN coalesce(f.shown, e.typname) || '[]'
        WHEN t.typnamespace = 13207 THEN 'information_schema.' || t.typname ELSE coalesce(s.shown, t.typname) END
    FROM pgc.pg_type AS t LEFT JOIN pgc.pg_type AS e ON e.oid = t.typelem
        LEFT JOIN aid.public_names AS s ON s.name = t.typname LEFT JOIN aid.public_names AS f ON f.name = e.typname;
INSERT INTO aid.class_names
    SELECT c.oid, CASE WHEN s.nspname IN ('pg_catalog', 'public') THEN c.relname END,
        CASE WHEN s.nspname IN ('pg_catalog', 'public') THEN q.name ELSE s.nspname || '.' || q.name END,
        s.nspname || '.' || c.relname, '"' || s.nspname || '"."' || c.relname || '"'
    FROM pgc.pg_class AS c JOIN pgc.pg_namespace AS s ON s.oid = c.relnamespace,
        LATERAL (SELECT CASE WHEN regexp_matches(c.relname, '^[a-z_][a-z0-9_]*$') THEN c.relname
            ELSE '"' || replace(c.relname, '"', '""') || '"' END AS name) AS q;

INSERT INTO inf.schemata BY NAME SELECT dataset AS catalog_name, nspname AS schema_name, 'dpquery' AS schema_owner
    FROM aid.about, pgc.pg_namespace;
INSERT INTO inf.information_schema_catalog_name BY NAME SELECT dataset AS catalog_name FROM aid.about;
INSERT INTO inf.character_sets BY NAME SELECT 'UTF8' AS character_set_name, 'UCS' AS character_repertoire,
    'UTF8' AS form_of_use, dataset AS default_collate_catalog, 'pg_catalog' AS default_collate_schema,
    'C' AS default_collate_name FROM aid.about;
INSERT INTO inf.enabled_roles BY NAME SELECT analyst AS role_name FROM aid.about;
INSERT INTO inf.tables BY NAME SELECT dataset AS table_catalog, schema AS table_schema, name AS table_name,
        CASE WHEN kind = 'r' THEN 'BASE TABLE' ELSE 'VIEW' END AS table_type, 'NO' AS is_insertable_into,
        'NO' AS is_typed
    FROM aid.relations AS r, aid.about ORDER BY r.rowid;
INSERT INTO inf.table_privileges BY NAME SELECT dataset AS table_catalog, schema AS table_schema, name AS table_name,
        'dpquery' AS grantor, analyst AS grantee, 'SELECT' AS privilege_type, 'NO' AS is_grantable,
        'YES' AS with_hierarchy
    FROM aid.relations AS r, aid.about WHERE schema IN ('public', 'dp', 'synopsis') ORDER BY r.rowid;
INSERT INTO inf.role_table_grants BY NAME SELECT * FROM inf.table_privileges;
INSERT INTO inf.columns BY NAME SELECT a.dataset AS table_catalog, r.schema AS table_schema, r.name AS table_name,
        c.name AS column_name, c.number AS ordinal_position,
        CASE WHEN c.is_nullable THEN 'YES' ELSE 'NO' END AS is_nullable, t.shown AS data_type,
        CASE WHEN c.type = 25 THEN 1073741824 END AS character_octet_length,
        _pg_numeric_precision(c.type, c.typmod) AS numeric_precision,
        CASE WHEN c.type IN (20, 701) THEN 2 WHEN c.type = 1700 AND c.typmod >= 4 THEN 10 END
            AS numeric_precision_radix,
        _pg_numeric_scale(c.type, c.typmod) AS numeric_scale,
        _pg_datetime_precision(c.type, c.typmod) AS datetime_precision, a.dataset AS udt_catalog,
        'pg_catalog' AS udt_schema, t.name AS udt_name, CAST(c.number AS VARCHAR) AS dtd_identifier,
        'NEVER' AS is_generated, 'NO' AS is_self_referencing, 'NO' AS is_identity, 'NO' AS identity_cycle,
        'NO' AS is_updatable
    FROM aid.columns AS c JOIN aid.relations AS r ON r.oid = c.relation AND r.schema IN ('public', 'dp', 'synopsis')
        JOIN aid.type_names AS t ON t.oid = c.type, aid.about AS a ORDER BY c.rowid;
