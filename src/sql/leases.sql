-- Leases: who holds what, for the people who are on call.

CREATE FUNCTION fencing.epoch() RETURNS bigint
LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'fencing_epoch';
COMMENT ON FUNCTION fencing.epoch() IS
'The epoch that the tokens issued here are judged by: token >> 40 of a token that counts is not lower. On a standby the epoch in which tokens were issued last. Reads only.';

-- The subquery is worked out once: its functions are volatile, so that it is not merged into the rest.
CREATE VIEW fencing.leases AS
SELECT l.resource, l.token, l.holder, l.ttl, l.acquired_at, l.expires_at,
    CASE WHEN l.state = 'held' THEN l.expires_at - l.now END AS remaining, l.state
FROM (
    SELECT f.*, e.now,
        CASE WHEN f.external THEN 'external'
            WHEN f.released_at IS NOT NULL THEN 'released'
            WHEN f.token >> 40 < e.epoch THEN 'epoch_ended'
            WHEN f.expires_at <= e.now THEN 'expired'
            ELSE 'held' END AS state
    FROM fencing.fence AS f, (SELECT fencing.epoch() AS epoch, pg_catalog.clock_timestamp() AS now) AS e) AS l;
COMMENT ON VIEW fencing.leases IS
'Every resource that is known, with its last lease. For pg_monitor and the owner of the database; fencing.lookup() shows one resource to everybody';
COMMENT ON COLUMN fencing.leases.resource IS 'What the lock protects';
COMMENT ON COLUMN fencing.leases.token IS 'The fence: a lower token is stale';
COMMENT ON COLUMN fencing.leases.holder IS 'The label of who was granted the lease; NULL when none was given';
COMMENT ON COLUMN fencing.leases.ttl IS 'The time to live last granted; NULL for tokens from elsewhere';
COMMENT ON COLUMN fencing.leases.acquired_at IS 'When the lease was granted; NULL for tokens from elsewhere';
COMMENT ON COLUMN fencing.leases.expires_at IS 'When it ends or would have ended, had it not been released or ended by an epoch; NULL for tokens from elsewhere';
COMMENT ON COLUMN fencing.leases.remaining IS 'How long the lease still stands; NULL when it is over';
COMMENT ON COLUMN fencing.leases.state IS
'held; expired; released; epoch_ended: granted before a promotion, restore or copy, or before a fast_forward past the epoch; external: the tokens come from elsewhere, and there is no lease';
