-- Guards: what is protected, and how.

CREATE FUNCTION fencing.guard_options(relation oid, arguments bytea, OUT token_column text, OUT resource text,
    OUT issuer text, OUT source text, OUT missing text, OUT mode text, OUT fault text, OUT missing_column text)
RETURNS SETOF record
LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'fencing_guard_options';
COMMENT ON FUNCTION fencing.guard_options(oid, bytea) IS
'What the arguments of a guard (pg_trigger.tgargs) say, and what is wrong with them for that relation, if anything. For the view fencing.guards and for fencing.verify(). Reads only.';

CREATE VIEW fencing.guards AS
WITH ours AS (
    SELECT t.oid, t.tgrelid, t.tgname, t.tgargs, t.tgparentid, t.tgfoid = 'fencing.guard()'::regprocedure AS is_row,
        CASE t.tgenabled WHEN 'O' THEN 'enabled' WHEN 'A' THEN 'always' WHEN 'R' THEN 'replica' ELSE 'disabled' END AS state
    FROM pg_catalog.pg_trigger AS t
    WHERE t.tgfoid IN ('fencing.guard()'::regprocedure, 'fencing.guard_truncate()'::regprocedure))
SELECT coalesce(g.tgrelid, u.tgrelid)::regclass AS relation,
    CASE WHEN c.relispartition THEN pg_catalog.pg_partition_root(c.oid) END AS partition_of,
    g.tgname AS guard, o.token_column, o.resource, o.issuer, o.source, o.missing, o.mode,
    coalesce(g.state, 'missing') AS row_state, coalesce(u.state, 'missing') AS truncate_state,
    NOT EXISTS (SELECT FROM pg_catalog.pg_trigger AS later
        WHERE later.tgrelid = g.tgrelid AND later.tgname > g.tgname AND later.tgfoid <> 'fencing.guard()'::regprocedure
            AND NOT later.tgisinternal AND later.tgenabled <> 'D'
            AND later.tgtype & 3 = 3 AND later.tgtype & 20 <> 0) AS fires_last,
    o.fault
FROM (SELECT * FROM ours WHERE is_row) AS g
    FULL JOIN (SELECT * FROM ours WHERE NOT is_row) AS u ON u.tgrelid = g.tgrelid
    JOIN pg_catalog.pg_class AS c ON c.oid = coalesce(g.tgrelid, u.tgrelid)
    LEFT JOIN LATERAL fencing.guard_options(c.oid, coalesce(g.tgargs, u.tgargs)) AS o ON true;
COMMENT ON VIEW fencing.guards IS
'Every table of this database that has a guard, partitions included, with the options of the guard. For pg_monitor and the owner of the database';
COMMENT ON COLUMN fencing.guards.relation IS 'The table';
COMMENT ON COLUMN fencing.guards.partition_of IS 'The partitioned table at the top; NULL where the table is no partition';
COMMENT ON COLUMN fencing.guards.guard IS 'The name of the row trigger; NULL where there is none';
COMMENT ON COLUMN fencing.guards.token_column IS 'Where the rows keep their token; NULL: nowhere';
COMMENT ON COLUMN fencing.guards.resource IS 'The template for the resource of a row; NULL: the row alone is fenced';
COMMENT ON COLUMN fencing.guards.issuer IS 'fencing or external; NULL without resource';
COMMENT ON COLUMN fencing.guards.source IS 'any or transaction';
COMMENT ON COLUMN fencing.guards.missing IS 'reject or allow';
COMMENT ON COLUMN fencing.guards.mode IS 'enforce or observe';
COMMENT ON COLUMN fencing.guards.row_state IS 'enabled, always, replica, disabled or missing: the row trigger';
COMMENT ON COLUMN fencing.guards.truncate_state IS 'The same of the TRUNCATE trigger';
COMMENT ON COLUMN fencing.guards.fires_last IS 'Whether no other trigger can change the row after the guard has checked it';
COMMENT ON COLUMN fencing.guards.fault IS 'What is wrong with the arguments of the guard, so that it refuses every write; NULL: nothing that can be seen';
