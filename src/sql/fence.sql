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
