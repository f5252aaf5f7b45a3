-- Verify: whatever leaves a gap.

CREATE FUNCTION fencing.verify(OUT severity text, OUT object text, OUT problem text, OUT cure text) RETURNS SETOF record
LANGUAGE sql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $verify$
WITH RECURSIVE ours AS (
    SELECT t.*, t.tgrelid::regclass AS relation, t.tgfoid = 'fencing.guard()'::regprocedure AS is_row,
        t.tgtype & 31 = 31 AND t.tgqual IS NULL AND t.tgattr = '' AS fires_for_all, c.relkind, c.relispartition,
        c.relpersistence, o.fault, o.missing_column, o.token_column,
        -- What protects the table as this guard does. Of a clone its owner's: where the clones come from.
        (SELECT CASE WHEN t.tgparentid = 0 AND NOT c.relispartition THEN t.tgrelid ELSE
            coalesce((SELECT a.relid::oid FROM pg_partition_ancestors(t.tgrelid) WITH ORDINALITY AS a(relid, nr)
                JOIN pg_trigger AS g ON g.tgrelid = a.relid AND g.tgfoid = 'fencing.guard()'::regprocedure AND g.tgparentid = 0
                ORDER BY nr DESC LIMIT 1), t.tgrelid) END) AS top,
        concat(', token_column => ' || quote_literal(o.token_column), ', resource => ' || quote_literal(o.resource),
            CASE WHEN o.issuer = 'external' THEN ', issuer => ''external''' END,
            CASE WHEN o.source <> 'any' THEN ', source => ''transaction''' END,
            CASE WHEN o.missing <> 'reject' THEN ', missing => ''allow''' END,
            CASE WHEN o.mode <> 'enforce' THEN ', mode => ''observe''' END) AS options
    FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
        LEFT JOIN LATERAL fencing.guard_options(t.tgrelid, t.tgargs) AS o ON true
    WHERE t.tgfoid IN ('fencing.guard()'::regprocedure, 'fencing.guard_truncate()'::regprocedure)),
descendants AS (
    SELECT i.inhrelid AS child, g.options FROM ours AS g JOIN pg_inherits AS i ON i.inhparent = g.tgrelid
    WHERE g.is_row AND g.relkind <> 'p'
    UNION
    SELECT i.inhrelid, d.options FROM descendants AS d JOIN pg_inherits AS i ON i.inhparent = d.child),
grants AS (
    SELECT p.oid, 'pg_proc'::regclass AS catalog, coalesce(proacl, acldefault('f', proowner)) AS acl, proowner AS owner,
        format('FUNCTION %s', p.oid::regprocedure) AS name FROM pg_proc AS p WHERE pronamespace = 'fencing'::regnamespace
    UNION ALL
    SELECT oid, 'pg_class'::regclass, relacl, relowner,
        format('%s %s', CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, oid::regclass)
    FROM pg_class WHERE relnamespace = 'fencing'::regnamespace AND relkind IN ('r', 'v', 'S')
    UNION ALL
    SELECT oid, 'pg_namespace'::regclass, nspacl, nspowner, 'SCHEMA fencing' FROM pg_namespace WHERE nspname = 'fencing')

SELECT 'error', relation::text,
    format('trigger %I %s', tgname, CASE tgenabled WHEN 'D' THEN 'is disabled' ELSE 'fires in replica sessions only' END),
    format('ALTER TABLE %s ENABLE TRIGGER %I;', relation, tgname)
FROM ours WHERE tgenabled IN ('D', 'R')

UNION ALL
SELECT CASE WHEN unable THEN 'warning' ELSE 'error' END, relation::text,
    CASE WHEN unable THEN 'TRUNCATE of a foreign table cannot be guarded on this server'
        ELSE format('%s has no TRUNCATE guard', CASE WHEN relispartition THEN 'partition' ELSE 'table' END) END,
    CASE WHEN unable THEN NULL ELSE format('SELECT fencing.protect(%L%s);', top::regclass, options) END
FROM ours, LATERAL (SELECT relkind = 'f' AND current_setting('server_version_num')::int < 160000 AS unable) AS server
WHERE is_row AND NOT EXISTS (SELECT FROM ours AS u WHERE u.tgrelid = ours.tgrelid AND NOT u.is_row)
    -- protect() replaces the guard of that name: where there is one, with what it has.
    AND (tgname = 'zz_fencing_guard'
        OR NOT EXISTS (SELECT FROM ours AS g WHERE g.tgrelid = ours.tgrelid AND g.is_row AND g.tgname = 'zz_fencing_guard'))

UNION ALL
SELECT 'error', relation::text, 'table has a TRUNCATE guard only', format('SELECT fencing.protect(%L%s);', relation, options)
FROM ours WHERE NOT is_row AND NOT EXISTS (SELECT FROM ours AS g WHERE g.tgrelid = ours.tgrelid AND g.is_row)

UNION ALL
SELECT 'error', relation::text, format('trigger %I does not fire before every INSERT, UPDATE and DELETE of a row', tgname),
    concat(format('DROP TRIGGER %I ON %s;', tgname, relation),
        -- A sound guard beside it stays as it is.
        CASE WHEN NOT EXISTS (SELECT FROM ours AS g WHERE g.tgrelid = ours.tgrelid AND g.is_row AND g.fires_for_all
                AND g.fault IS NULL)
            THEN format(' SELECT fencing.protect(%L%s);', relation, options) END)
FROM ours WHERE is_row AND tgparentid = 0 AND fault IS NULL AND NOT fires_for_all

UNION ALL
SELECT DISTINCT 'error', part.relation::text, format('trigger %I fires ALWAYS on %s, and not here', part.tgname, whole.relation),
    format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I;', part.relation, part.tgname)
FROM ours AS part JOIN ours AS whole ON whole.is_row = part.is_row AND whole.tgenabled = 'A' AND part.tgenabled = 'O'
    AND whole.tgname = part.tgname AND part.relispartition AND whole.tgrelid = part.top AND part.tgrelid <> part.top

UNION ALL
SELECT 'error', g.relation::text, format('trigger %I fires after guard %I and can change what was checked', later.tgname, g.tgname),
    CASE WHEN g.tgname > 'before_guard' THEN format('ALTER TRIGGER %I ON %s RENAME TO %I;', later.tgname, g.relation,
            left('before_guard_' || later.tgname, 63))
        ELSE format('ALTER TRIGGER %I ON %s RENAME TO zz_fencing_guard;', g.tgname, g.relation) END
FROM ours AS g JOIN pg_trigger AS later ON later.tgrelid = g.tgrelid AND later.tgname > g.tgname
WHERE g.is_row AND later.tgfoid <> 'fencing.guard()'::regprocedure AND NOT later.tgisinternal
    AND later.tgparentid = 0 AND later.tgenabled <> 'D' AND later.tgtype & 3 = 3 AND later.tgtype & 20 <> 0

UNION ALL
SELECT DISTINCT ON (d.child) 'error', d.child::regclass::text, 'inheritance child of a guarded table has no guard',
    format('SELECT fencing.protect(%L%s);', d.child::regclass, d.options)
FROM descendants AS d WHERE NOT EXISTS (SELECT FROM ours AS g WHERE g.tgrelid = d.child AND g.is_row)

UNION ALL
SELECT DISTINCT 'warning', relation::text, 'guarded table is unlogged: a crash empties it, and its tokens with it',
    format('ALTER TABLE %s SET LOGGED;', relation)
FROM ours WHERE relpersistence = 'u' AND relkind = 'r'

UNION ALL
SELECT 'error', oid::regclass::text, 'is unlogged: a crash sets it back, and tokens come twice or become valid again',
    format('ALTER %s %s SET LOGGED;', CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, oid::regclass)
FROM pg_class WHERE relnamespace = 'fencing'::regnamespace AND relkind IN ('r', 'S') AND relpersistence <> 'p'

UNION ALL
SELECT 'error', 'fencing.token_seq', 'its options could issue a token twice, so nothing is issued', concat('ALTER SEQUENCE fencing.token_seq',
    CASE WHEN seqtypid <> 'bigint'::regtype THEN ' AS bigint' END, CASE WHEN seqincrement <= 0 THEN ' INCREMENT BY 1' END,
    CASE WHEN seqmin <= 0 THEN ' MINVALUE 1' END, CASE WHEN seqcache <> 1 THEN ' CACHE 1' END, CASE WHEN seqcycle THEN ' NO CYCLE' END, ';')
FROM pg_sequence WHERE seqrelid = 'fencing.token_seq'::regclass
    AND (seqtypid <> 'bigint'::regtype OR seqincrement <= 0 OR seqmin <= 0 OR seqcache <> 1 OR seqcycle)

UNION ALL
SELECT 'error', relation::text, format('trigger %I %s; every write is refused', tgname, fault),
    CASE WHEN missing_column IS NULL THEN format('DROP TRIGGER %I ON %s;', tgname, relation)
        ELSE format('ALTER TABLE %s ADD COLUMN %I %s;', relation, missing_column,
            CASE WHEN missing_column = token_column THEN 'bigint' ELSE 'text' END) END
FROM ours WHERE fault IS NOT NULL AND tgparentid = 0
    AND (is_row OR NOT EXISTS (SELECT FROM ours AS g WHERE g.tgrelid = ours.tgrelid AND g.is_row)) AND top = tgrelid

UNION ALL
SELECT DISTINCT 'warning', format('prepared transaction %L', p.gid),
    format('holds a seal since %s: nobody can acquire what it has written for', p.prepared),
    format('ROLLBACK PREPARED %L; -- or COMMIT PREPARED, as its coordinator has decided', p.gid)
FROM pg_locks AS l
    -- The lock on its own transaction says which it is; the virtual one is its backend's until the server restarts.
    JOIN pg_locks AS x ON x.virtualtransaction = l.virtualtransaction AND x.locktype = 'transactionid' AND x.pid IS NULL
    JOIN pg_prepared_xacts AS p ON p.transaction = x.transactionid
WHERE l.locktype = 'object' AND l.classid = 'fencing.fence'::regclass AND l.pid IS NULL
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())

UNION ALL
SELECT 'warning', format('process %s', b.pid),
    format('sleeps in a transaction with a stale token of resource %L', b.resource),
    format('SELECT * FROM fencing.evict(%L);', b.resource)
FROM fencing.get_bindings() AS b WHERE b.lost AND b.sleeps

UNION ALL
SELECT 'error', lower(g.name), format('PUBLIC has %s, which the extension does not grant', string_agg(a.privilege_type, ', ' ORDER BY a.privilege_type)),
    concat(CASE WHEN a.grantor <> g.owner THEN format('SET ROLE %s; ', a.grantor::regrole) END,
        format('REVOKE %s ON %s FROM PUBLIC;', string_agg(a.privilege_type, ', ' ORDER BY a.privilege_type), g.name),
        CASE WHEN a.grantor <> g.owner THEN ' RESET ROLE;' END)
FROM grants AS g CROSS JOIN LATERAL aclexplode(g.acl) AS a
WHERE a.grantee = 0 AND NOT EXISTS (SELECT FROM pg_init_privs AS i, aclexplode(i.initprivs) AS b
    WHERE i.objoid = g.oid AND i.classoid = g.catalog AND i.objsubid = 0 AND b.grantee = 0 AND b.privilege_type = a.privilege_type)
GROUP BY g.name, g.owner, a.grantor

ORDER BY 1, 2, 3
$verify$;
COMMENT ON FUNCTION fencing.verify() IS
'What leaves a gap, a row for each problem: severity (error, warning), the object, what is wrong, and the statement that cures it. No row on a sound installation. Looks at disabled and missing guards, partitions, triggers that fire after a guard, inheritance children, unlogged tables and sequences, options of the sequence, columns that are gone, prepared transactions, transactions that sleep with a stale token (with shared memory, see fencing.refusals), rights of PUBLIC. Reads only. For pg_monitor and the owner of the database.';
