-- Guard: the triggers that refuse stale writes.

CREATE FUNCTION fencing.guard() RETURNS trigger
LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'fencing_guard';
COMMENT ON FUNCTION fencing.guard() IS
'Trigger: BEFORE INSERT OR UPDATE OR DELETE, FOR EACH ROW, with arguments ''key=value'' (a bare word is the token column): token_column, resource = a template with {column}, issuer = fencing | external, source = any | transaction, missing = reject | allow, mode = enforce | observe. Refuses a write whose token is lower than the row''s or the fence of the row''s resource (TK001, also at COMMIT), that carries none (TK002), or one that was never granted (TK003). fencing.protect() makes it.';

CREATE FUNCTION fencing.guard_truncate() RETURNS trigger
LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'fencing_guard_truncate';
COMMENT ON FUNCTION fencing.guard_truncate() IS
'Trigger: BEFORE TRUNCATE, FOR EACH STATEMENT, with the arguments of fencing.guard(). Refuses TRUNCATE (TK002) unless missing=allow, or the resource is a constant and the transaction carries its valid token. fencing.protect() makes it.';

CREATE FUNCTION fencing.protect(relation regclass, token_column name DEFAULT NULL, resource text DEFAULT NULL,
    issuer text DEFAULT 'fencing', source text DEFAULT 'any', missing text DEFAULT 'reject',
    mode text DEFAULT 'enforce') RETURNS void
LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'fencing_protect';
COMMENT ON FUNCTION fencing.protect(regclass, name, text, text, text, text, text) IS
'Creates or replaces the triggers zz_fencing_guard and zz_fencing_guard_truncate on a table and, for TRUNCATE, on its partitions. token_column: bigint, or smaller for tokens from elsewhere. resource: a template such as job-{job_id} for the resource that a row belongs to; one of the two must be given. The others as for fencing.guard(). Idempotent: takes no lock above ACCESS SHARE when nothing changes. Every argument is checked at once: 42703 for a column that is not there, 42804 for its type, 42P10 for a generated one, 42611 for a default other than NULL or 0, 22023 for other values. The caller must own the table, and may execute fencing.guard and fencing.guard_truncate.';

CREATE FUNCTION fencing.unprotect(relation regclass) RETURNS void
LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'fencing_unprotect';
COMMENT ON FUNCTION fencing.unprotect(regclass) IS
'Drops the triggers that fencing.protect() made; nothing happens where there are none. The caller must own the table.';
