\echo Use "CREATE EXTENSION fencing" to load this file. \quit

-- A plain CREATE: the install fails if somebody has planted a schema of this name, so that nothing
-- in it can ever be somebody else's.
CREATE SCHEMA fencing;
COMMENT ON SCHEMA fencing IS
'Fencing tokens, leases, and triggers that refuse stale writes';
-- Token: numbers that only grow.

-- CACHE 1 and NO CYCLE matter: next_token() refuses to draw from anything else.
CREATE SEQUENCE fencing.token_seq AS bigint MINVALUE 1 START WITH 1 INCREMENT BY 1 CACHE 1 NO CYCLE;
COMMENT ON SEQUENCE fencing.token_seq IS
'Where the tokens of this database come from; drawn only through fencing.next_token() and fencing.acquire(), which flush WAL before they return a value';
-- Without this a dump would leave the position out, and a restored database would start at 1 again.
SELECT pg_catalog.pg_extension_config_dump('fencing.token_seq', '');

-- A sequence, since what it says must survive the ROLLBACK of the transaction that draws and be seen by everybody at once.
CREATE SEQUENCE fencing.origin_seq AS bigint;
COMMENT ON SEQUENCE fencing.origin_seq IS
'Under which identity this database issued its last token: a hash of system identifier, database and fencing.token_seq, and how far its epoch is ahead of the timeline. Written by fencing.next_token(), fencing.acquire() and fencing.fast_forward()';
SELECT pg_catalog.pg_extension_config_dump('fencing.origin_seq', '');
CREATE FUNCTION fencing.record_origin() RETURNS void
LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'fencing_record_origin';
SELECT fencing.record_origin();
DROP FUNCTION fencing.record_origin();

CREATE FUNCTION fencing.next_token() RETURNS bigint
LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'fencing_next_token';
COMMENT ON FUNCTION fencing.next_token() IS
'Draws a token, greater than every token handed out before by this database, and durable before it is returned, whatever becomes of the transaction. Errors: 55000 when fencing.token_seq has options that could issue a value twice, or was created or rewritten by the running transaction; 2200H when it is used up, or ends before the epoch (token >> 40) that the database has entered; 25006 in a read-only transaction and on a standby. Needs EXECUTE, and no right on the sequence.';

CREATE FUNCTION fencing.fast_forward(above bigint) RETURNS bigint
LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'fencing_fast_forward';
COMMENT ON FUNCTION fencing.fast_forward(bigint) IS
'Makes every later token greater than "above" (0 or more), durably and at once, also when the transaction rolls back, and returns the value that the next token will exceed. Never lowers anything. Past the end of the running epoch (token >> 40) it ends every lease, and makes every token issued here before stale. For migrations, a re-created extension, and what a server cannot see by itself. Errors: 22004 for NULL, 22023 for a negative value or one that leaves no token, 55000 as next_token(), though not in the transaction that creates the extension, 25006 when read-only. For the database owner.';
-- Fence: the high-water mark of each resource.

-- One row for each resource. The only index is the key: renewals must stay HOT updates, so nothing
-- that a renewal changes may ever be indexed, and a page keeps room for the new version.
CREATE TABLE fencing.fence (
    resource text COLLATE "C" PRIMARY KEY,
    token bigint NOT NULL,
    external boolean NOT NULL,
    holder text,
    ttl interval,
    acquired_at timestamptz,
    expires_at timestamptz,
    released_at timestamptz
) WITH (fillfactor = 70);
COMMENT ON TABLE fencing.fence IS
'The fence of each resource and, where the resource is issued here, its last lease. Read it with fencing.lookup(); nobody writes it but the functions of the extension';
COMMENT ON COLUMN fencing.fence.resource IS 'What the lock protects: 1 to 512 bytes, compared bytewise';
COMMENT ON COLUMN fencing.fence.token IS 'The fence: the highest token granted, advanced to or seen';
COMMENT ON COLUMN fencing.fence.external IS 'True when the tokens of the resource come from elsewhere (fencing.advance, or a guard with issuer=external)';
COMMENT ON COLUMN fencing.fence.holder IS 'The label of who was granted the lease; NULL when none was given';
COMMENT ON COLUMN fencing.fence.ttl IS 'The time to live last granted; NULL for a resource issued elsewhere';
COMMENT ON COLUMN fencing.fence.acquired_at IS 'When the lease was granted, by clock_timestamp() under the lock';
COMMENT ON COLUMN fencing.fence.expires_at IS 'When others may acquire, unless a new epoch has ended the lease before (fencing.lookup() knows); says nothing about whether a write is accepted';
COMMENT ON COLUMN fencing.fence.released_at IS 'When the holder gave the lease back; NULL while it has not';
SELECT pg_catalog.pg_extension_config_dump('fencing.fence', '');

CREATE FUNCTION fencing.advance(resource text, token bigint) RETURNS bigint
LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'fencing_advance';
COMMENT ON FUNCTION fencing.advance(text, bigint) IS
'Raises the fence of a resource whose tokens come from elsewhere, before the first write of a new holder, and returns it. An equal token changes nothing; a lower one is TK001. Waits at most a second, or lock_timeout if that is shorter, for another open transaction, then 55P03. Other errors: 22004 for NULL, 22023 for a token below 1 or a resource name that is empty or longer than 512 bytes, 55000 for a resource issued here, 25006 when read-only. Durable once committed, unless fencing.durable_grants is off.';

CREATE FUNCTION fencing.forget(resource text) RETURNS boolean
LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'fencing_forget';
COMMENT ON FUNCTION fencing.forget(text) IS
'Drops a resource with its fence, and says whether there was one: the repair when a bogus token has come in from elsewhere. The only way in which a fence goes down; logged. Waits at most a second, or lock_timeout if that is shorter, for another open transaction, then 55P03. Other errors: 22004, 22023, 25006. For the database owner.';

CREATE FUNCTION fencing.bind(resource text, token bigint) RETURNS bigint
LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'fencing_bind';
COMMENT ON FUNCTION fencing.bind(text, bigint) IS
'Ties the running transaction to a resource and a token, and returns the token: the transaction can commit only while the token is not stale, whatever tables it writes; and guarded writes for the resource carry the token. Follows savepoints. On a resource issued here the token must be the current one, on one advanced from elsewhere the fence or more (more raises the fence at COMMIT). Of two binds the higher counts. fencing.enforcement applies: observe warns instead of an error, and off binds nothing. Errors: TK001 for a stale token, now or at COMMIT, or one issued here in an earlier epoch (token >> 40); TK003 for one that was never granted, or an unknown resource; 22004 for NULL, 22023 for a token below 1 or a bad resource name; 25006 on a standby, and at COMMIT when a read-only transaction would have to raise the fence; 55P03 at COMMIT after fencing.seal_timeout.';

CREATE FUNCTION fencing.bound(OUT resource text, OUT token bigint) RETURNS SETOF record
LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'fencing_bound';
COMMENT ON FUNCTION fencing.bound() IS
'What the running transaction is bound to: a row for each fencing.bind() that has not been rolled back. Reads only.';
-- Lease: a grant of one resource until a time, with one token.

CREATE TYPE fencing.lease AS (
    resource text,
    token bigint,
    holder text,
    ttl interval,
    acquired_at timestamptz,
    expires_at timestamptz
);
COMMENT ON TYPE fencing.lease IS
'A grant of one resource until expires_at, with its token. From fencing.lookup(), token alone is the fence of a resource that has no lease';

CREATE FUNCTION fencing.acquire(resource text, ttl interval DEFAULT '30 seconds', holder text DEFAULT NULL,
    wait interval DEFAULT '0', steal text DEFAULT 'never') RETURNS SETOF fencing.lease
LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'fencing_acquire';
COMMENT ON FUNCTION fencing.acquire(text, interval, text, interval, text) IS
'Grants the lease of a resource: one row when granted, no row when somebody else still holds it after "wait"; a lease of an earlier epoch (token >> 40) is over. Commit before the work. ttl: more than 0, at most 10 years. holder: a free label. wait: 0 to 1 minute, in order of arrival. steal: never, same_holder (take over from a lease with the same holder label), always. Not re-entrant. Errors: 22004 for a NULL where none is allowed, 22023 for bad values, 25001 inside a transaction block at REPEATABLE READ or SERIALIZABLE, 55000 for a resource that was advanced from elsewhere, 55000 and 2200H as fencing.next_token(), 55P03 after a second when somebody has locked the table or alters the sequence by hand, 25006 when read-only. EXECUTE on this function is power over every lease of the database.';

CREATE FUNCTION fencing.renew(resource text, token bigint, ttl interval DEFAULT NULL) RETURNS timestamptz
LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'fencing_renew';
COMMENT ON FUNCTION fencing.renew(text, bigint, interval) IS
'Moves the expiry of a lease to now plus ttl (NULL: the ttl last granted) and returns it, or NULL when the lease is lost: another token, released, expired, or of an earlier epoch (token >> 40). An expired lease is not revived. Waits at most a second, or lock_timeout if that is shorter, for another open transaction, then 55P03. Other errors: 22004, 22023, 25006.';

CREATE FUNCTION fencing.release(resource text, token bigint) RETURNS boolean
LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'fencing_release';
COMMENT ON FUNCTION fencing.release(text, bigint) IS
'Ends a lease, expired or not: true when this call ended it, false the second time, with another token, or where a new epoch has ended it already. The fence stays. Waits at most a second, or lock_timeout if that is shorter, for another open transaction, then 55P03. Other errors: 22004, 22023, 25006.';

CREATE FUNCTION fencing.prune(idle interval DEFAULT '7 days') RETURNS bigint
LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'fencing_prune';
COMMENT ON FUNCTION fencing.prune(interval) IS
'Forgets the resources issued here whose lease ended longer ago than "idle" (0 or more), skips those in use, and returns how many it forgot. Safe: tokens come from one sequence, so the next grant is greater all the same. Errors: 22004, 22023, 25006, 55P03 after a second when somebody has locked the table by hand. For the database owner.';

CREATE FUNCTION fencing.lookup(resource text) RETURNS SETOF fencing.lease
LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'fencing_lookup';
COMMENT ON FUNCTION fencing.lookup(text) IS
'The fence of a resource as committed now, whatever the isolation level, and its lease, if it has one (expired or not, but neither released nor of an earlier epoch); no row when the resource is unknown. Reads only; works on a standby. Errors: 22004, 22023.';
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
-- The only place with GRANT and REVOKE.
--
-- The database owner decides who uses the extension, as member of pg_database_owner and with GRANT
-- OPTION. Not the role that ran CREATE EXTENSION: the grants of a role are lost when a superuser
-- restores the dump, those of pg_database_owner arrive.

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA fencing FROM PUBLIC;
GRANT USAGE ON SCHEMA fencing TO PUBLIC;
GRANT USAGE ON SCHEMA fencing TO pg_database_owner WITH GRANT OPTION;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA fencing TO pg_database_owner WITH GRANT OPTION;

-- What reads only, and what needs the ownership of a table anyway.
GRANT EXECUTE ON FUNCTION fencing.lookup(text), fencing.bound(), fencing.unprotect(regclass) TO PUBLIC;

-- What a dump has to read.
GRANT SELECT ON fencing.fence, fencing.token_seq, fencing.origin_seq TO pg_database_owner;
