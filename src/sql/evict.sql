-- Evict: ending who holds a stale token.

CREATE FUNCTION fencing.get_bindings(OUT pid integer, OUT resource text, OUT token bigint, OUT lost boolean,
    OUT sleeps boolean)
RETURNS SETOF record
LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'fencing_get_bindings';
COMMENT ON FUNCTION fencing.get_bindings() IS
'What the running transactions of other sessions in this database are bound to or have written with, the first 4 resources of each; lost: the token is stale, and its COMMIT would be refused; sleeps: idle in the transaction. For fencing.verify(). No row without shared memory (see fencing.refusals). Reads only. For pg_monitor and the owner of the database.';

CREATE FUNCTION fencing.evict(resource text, OUT pid integer, OUT token bigint, OUT ended boolean)
RETURNS SETOF record
LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'fencing_evict';
COMMENT ON FUNCTION fencing.evict(text) IS
'Ends the sessions of this database whose running transaction is bound to, or has written with, a stale token of the resource, so that their row locks go: a row for each, with whether it has ended within 5 seconds. Does not touch who holds the current token, nor what is only observed. Sees the first 4 resources of a transaction, in the first 1024 sessions of the server that hold any. Each is logged. Who may end whom is as with pg_terminate_backend(): 42501 otherwise. Other errors: 22004, 22023, 25006 on a standby, 55000 without shared memory: before PostgreSQL 17 it needs fencing in shared_preload_libraries. For the database owner.';
