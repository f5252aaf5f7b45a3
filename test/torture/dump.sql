-- dump.sql: the final tables for the checker, as one snapshot. A word, then columns; - for none.
\pset format unaligned
\pset fieldsep ' '
\pset tuples_only on
\pset null -
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SELECT 'row log', op, part, resource, token, seq, worker, xid, life FROM log;
SELECT 'row log_outside', op, part, resource, token, seq, worker, xid, life FROM log_outside;
SELECT 'row log_plain', op, part, resource, token, seq, worker, xid, life FROM log_plain;
SELECT 'state state', resource, seq, op, token FROM state;
SELECT 'state state_outside', resource, seq, op, token FROM state_outside;
SELECT 'change', relation, resource, old_token, new_token, op FROM audit;
SELECT 'fence', r.resource, l.token FROM (SELECT resource FROM state UNION ALL SELECT resource FROM state_outside) r,
	fencing.lookup(r.resource) l;
COMMIT;
