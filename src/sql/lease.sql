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
'Grants the lease of a resource: one row when granted, no row when somebody else still holds it after "wait"; a lease of an earlier epoch (token >> 40) is over. Commit before the work. ttl: more than 0, at most 10 years. holder: a free label. wait: 0 to 1 minute, in order of arrival. steal: never, same_holder (take over from a lease with the same holder label), always; a lease that is taken over is logged. With fencing.notify the COMMIT sends NOTIFY fencing, ''granted TOKEN RESOURCE''. Not re-entrant. Errors: 22004 for a NULL where none is allowed, 22023 for bad values, 25001 inside a transaction block at REPEATABLE READ or SERIALIZABLE, 55000 for a resource that was advanced from elsewhere, 55000 and 2200H as fencing.next_token(), 55P03 after a second when somebody has locked the table or alters the sequence by hand, 25006 when read-only. EXECUTE on this function is power over every lease of the database.';

CREATE FUNCTION fencing.renew(resource text, token bigint, ttl interval DEFAULT NULL) RETURNS timestamptz
LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'fencing_renew';
COMMENT ON FUNCTION fencing.renew(text, bigint, interval) IS
'Moves the expiry of a lease to now plus ttl (NULL: the ttl last granted) and returns it, or NULL when the lease is lost: another token, released, expired, or of an earlier epoch (token >> 40). An expired lease is not revived. Waits at most a second, or lock_timeout if that is shorter, for another open transaction, then 55P03. Other errors: 22004, 22023, 25006.';

CREATE FUNCTION fencing.release(resource text, token bigint) RETURNS boolean
LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'fencing_release';
COMMENT ON FUNCTION fencing.release(text, bigint) IS
'Ends a lease, expired or not: true when this call ended it, false the second time, with another token, or where a new epoch has ended it already. The fence stays. With fencing.notify the COMMIT sends NOTIFY fencing, ''released TOKEN RESOURCE''. Waits at most a second, or lock_timeout if that is shorter, for another open transaction, then 55P03. Other errors: 22004, 22023, 25006.';

CREATE FUNCTION fencing.prune(idle interval DEFAULT '7 days') RETURNS bigint
LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'fencing_prune';
COMMENT ON FUNCTION fencing.prune(interval) IS
'Forgets the resources issued here whose lease ended longer ago than "idle" (0 or more), skips those in use, and returns how many it forgot. Safe: tokens come from one sequence, so the next grant is greater all the same. Errors: 22004, 22023, 25006, 55P03 after a second when somebody has locked the table by hand. For the database owner.';

CREATE FUNCTION fencing.lookup(resource text) RETURNS SETOF fencing.lease
LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'fencing_lookup';
COMMENT ON FUNCTION fencing.lookup(text) IS
'The fence of a resource as committed now, whatever the isolation level, and its lease, if it has one (expired or not, but neither released nor of an earlier epoch); no row when the resource is unknown. Reads only; works on a standby. Errors: 22004, 22023.';
