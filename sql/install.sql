-- The extension as an object: what it makes, that all of it is described, and that it goes without
-- a trace. In a database of its own, because the extension is dropped here.
SELECT current_database() AS home \gset
CREATE DATABASE regress_fencing_install;
\c regress_fencing_install
\set SHOW_CONTEXT never

-- Somebody has planted a schema of our name: nothing is installed into it.
CREATE SCHEMA fencing;
CREATE EXTENSION fencing;
SELECT count(*) FROM pg_catalog.pg_extension WHERE extname = 'fencing';
DROP SCHEMA fencing;

-- The schema is not the user's choice.
CREATE EXTENSION fencing SCHEMA public;
CREATE EXTENSION fencing;
ALTER EXTENSION fencing SET SCHEMA public;

SELECT extname, extrelocatable, extnamespace::pg_catalog.regnamespace FROM pg_catalog.pg_extension WHERE extname = 'fencing';

-- What belongs to it.
SELECT c.relkind, c.oid::pg_catalog.regclass AS relation
FROM pg_catalog.pg_depend AS d JOIN pg_catalog.pg_class AS c ON c.oid = d.objid
WHERE d.deptype = 'e' AND d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
    AND d.refobjid = (SELECT oid FROM pg_catalog.pg_extension WHERE extname = 'fencing')
ORDER BY c.relkind, c.relname;
SELECT p.proname, pg_catalog.pg_get_function_arguments(p.oid) AS arguments,
    pg_catalog.pg_get_function_result(p.oid) AS result
FROM pg_catalog.pg_depend AS d JOIN pg_catalog.pg_proc AS p ON p.oid = d.objid
WHERE d.deptype = 'e' AND d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass
    AND d.refobjid = (SELECT oid FROM pg_catalog.pg_extension WHERE extname = 'fencing')
ORDER BY p.proname, arguments;
SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod) AS type
FROM pg_catalog.pg_attribute AS a
WHERE a.attrelid = 'fencing.lease'::pg_catalog.regclass AND a.attnum > 0
ORDER BY a.attnum;

-- One signature for each name, and nothing in the schema that is not the extension's.
SELECT p.proname FROM pg_catalog.pg_proc AS p
WHERE p.pronamespace = 'fencing'::pg_catalog.regnamespace
GROUP BY p.proname HAVING count(*) > 1 ORDER BY p.proname;
SELECT p.oid::pg_catalog.regprocedure FROM pg_catalog.pg_proc AS p
WHERE p.pronamespace = 'fencing'::pg_catalog.regnamespace
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend AS d
        WHERE d.objid = p.oid AND d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.deptype = 'e')
ORDER BY p.proname;
SELECT c.oid::pg_catalog.regclass FROM pg_catalog.pg_class AS c
WHERE c.relnamespace = 'fencing'::pg_catalog.regnamespace AND c.relkind NOT IN ('i', 't')
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend AS d
        WHERE d.objid IN (c.oid, c.reltype) AND d.deptype = 'e')
ORDER BY c.relname;

-- Everything changes or reads what is true now, in one process, and takes care of NULL by itself:
-- volatile, parallel unsafe, never strict, and nothing runs with somebody else's rights.
SELECT p.provolatile, p.proparallel, p.proisstrict, p.prosecdef, l.lanname, count(*) > 0 AS any
FROM pg_catalog.pg_proc AS p JOIN pg_catalog.pg_language AS l ON l.oid = p.prolang
WHERE p.pronamespace = 'fencing'::pg_catalog.regnamespace
GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5;

-- Every object is described: no row.
SELECT pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid) AS undescribed
FROM pg_catalog.pg_depend AS d
WHERE d.deptype = 'e' AND d.refobjid = (SELECT oid FROM pg_catalog.pg_extension WHERE extname = 'fencing')
    AND pg_catalog.obj_description(d.objid, d.classid::pg_catalog.regclass::pg_catalog.name) IS NULL
    -- array and row types go with what they are made for
    AND NOT (d.classid = 'pg_catalog.pg_type'::pg_catalog.regclass
        AND EXISTS (SELECT FROM pg_catalog.pg_type AS t LEFT JOIN pg_catalog.pg_class AS c ON c.oid = t.typrelid
            WHERE t.oid = d.objid AND (t.typelem <> 0 OR c.relkind <> 'c')))
    -- and a composite type is described as a type
    AND NOT (d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
        AND (SELECT relkind FROM pg_catalog.pg_class WHERE oid = d.objid) = 'c')
ORDER BY 1;
SELECT pg_catalog.obj_description('fencing.lease'::pg_catalog.regtype, 'pg_type') <> '' AS lease_is_described;
SELECT a.attrelid::pg_catalog.regclass, a.attname AS undescribed
FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
WHERE c.relnamespace = 'fencing'::pg_catalog.regnamespace AND c.relkind = 'r' AND a.attnum > 0
    AND pg_catalog.col_description(a.attrelid, a.attnum) IS NULL
ORDER BY 1, 2;

-- A dump carries the leases and the position of the sequence.
SELECT c.oid::pg_catalog.regclass AS dumped
FROM pg_catalog.pg_extension AS e JOIN pg_catalog.pg_class AS c ON c.oid = ANY (e.extconfig)
WHERE e.extname = 'fencing' ORDER BY c.relname;

-- The settings, once the library is there.
SELECT count(*) FROM fencing.lookup('nothing');
SELECT name, setting, vartype, context, enumvals, boot_val, source, short_desc <> '' AS described
FROM pg_catalog.pg_settings
WHERE name IN ('fencing.token', 'fencing.enforcement', 'fencing.durable_grants')
ORDER BY name;
-- A misspelt one is an error from then on.
SET fencing.tokn = 34;

-- Tokens of a new database are small (I1).
SELECT fencing.next_token() FROM generate_series(1, 3);

-- While a table is protected, the extension cannot be pulled away.
CREATE TABLE public.account (id int PRIMARY KEY, token bigint);
SELECT fencing.protect('public.account', 'token');
DROP EXTENSION fencing;
SELECT fencing.unprotect('public.account');

-- CASCADE takes the triggers along, and the table stays.
SELECT fencing.protect('public.account', 'token');
SET client_min_messages = warning;
DROP EXTENSION fencing CASCADE;
RESET client_min_messages;
SELECT count(*) AS triggers FROM pg_catalog.pg_trigger WHERE tgrelid = 'public.account'::pg_catalog.regclass;
INSERT INTO public.account VALUES (1, NULL);

-- Nothing stays behind.
SELECT count(*) FROM pg_catalog.pg_namespace WHERE nspname = 'fencing';
SELECT count(*) FROM pg_catalog.pg_proc WHERE probin LIKE '%fencing%';
SELECT count(*) FROM pg_catalog.pg_class WHERE relname IN ('fence', 'lease', 'token_seq', 'origin_seq');
SELECT count(*) FROM pg_catalog.pg_type WHERE typname IN ('fence', '_fence', 'lease', '_lease');

-- It comes back in the same session, and in the transaction that makes the sequence no token is
-- drawn: a ROLLBACK would take the sequence along, and the next one would begin at the same numbers (I1).
BEGIN;
CREATE EXTENSION fencing;
SELECT fencing.next_token();
ROLLBACK;
CREATE EXTENSION fencing;
SELECT fencing.next_token();
SELECT resource, token, holder FROM fencing.acquire('install/a', holder => 'w1');
DROP EXTENSION fencing;

\c :home
DROP DATABASE regress_fencing_install;
