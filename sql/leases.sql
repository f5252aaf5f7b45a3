-- The view leases: every resource with its last lease, for pg_monitor and the owner of the database.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
SELECT current_database() AS home \gset
-- In a database of its own, since an epoch is ended here.
CREATE ROLE regress_fencing_owner;
CREATE ROLE regress_fencing_monitor IN ROLE pg_monitor;
CREATE ROLE regress_fencing_stranger;
CREATE DATABASE regress_fencing_leases OWNER regress_fencing_owner;
\c regress_fencing_leases
\set SHOW_CONTEXT never
SET SESSION AUTHORIZATION regress_fencing_owner;
CREATE EXTENSION fencing;

SELECT fencing.epoch() = (SELECT last_value >> 40 FROM fencing.token_seq) AS epoch_of_the_sequence;
SELECT token AS earlier FROM fencing.acquire('job-0', '1 hour', 'w0') \gset
SELECT token AS released_earlier FROM fencing.acquire('job-1', '1 hour', 'w1') \gset
SELECT fencing.release('job-1', :released_earlier);
SELECT remaining > '59 minutes' AND remaining <= '1 hour' AS remains, state FROM fencing.leases WHERE resource = 'job-0';
SELECT fencing.fast_forward((fencing.epoch() + 1) << 40) > 0 AS next_epoch;
SELECT fencing.epoch() = :earlier >> 40 AS same_epoch;
SELECT count(*) FROM fencing.acquire('job-2', '1 hour', 'w2');
SELECT count(*) FROM fencing.acquire('job-3', '1 millisecond');
SELECT token AS released FROM fencing.acquire('job-4', '1 minute', 'w4') \gset
SELECT fencing.release('job-4', :released);
SELECT fencing.advance('shard-1', 5000);
SELECT pg_sleep(0.002);

-- remaining is there where a lease stands, and only there; external resources know no lease and no epoch.
CREATE TEMPORARY VIEW told AS
SELECT resource, holder, ttl, acquired_at <= clock_timestamp() AS acquired, expires_at - acquired_at AS span,
    remaining > '0' AND remaining <= ttl AS remains, state
FROM fencing.leases ORDER BY resource;
TABLE told;
SELECT resource, token FROM fencing.leases WHERE state = 'external';
-- What stands there is what lookup says.
SELECT l.resource FROM fencing.leases AS l, fencing.lookup(l.resource) AS u
WHERE u.token <> l.token
    OR (l.state IN ('held', 'expired')) <> (u.expires_at IS NOT NULL)
    OR u.expires_at <> l.expires_at OR u.acquired_at <> l.acquired_at OR u.holder <> l.holder OR u.ttl <> l.ttl;
-- A resource is found by the key.
SET enable_seqscan = off;
CREATE FUNCTION pg_temp.plan_of(query text) RETURNS SETOF text LANGUAGE plpgsql AS
    'BEGIN RETURN QUERY EXECUTE ''EXPLAIN (COSTS off) '' || query; END';
SELECT trim(line) AS condition FROM pg_temp.plan_of('SELECT * FROM fencing.leases WHERE resource = ''job-2''') AS line
WHERE line LIKE '%Cond%';
RESET enable_seqscan;

-- Who may read it. The owner hands it on; nobody writes to it.
GRANT SELECT ON fencing.leases TO regress_fencing_stranger;
REVOKE SELECT ON fencing.leases FROM regress_fencing_stranger;
\set VERBOSITY sqlstate
UPDATE fencing.leases SET holder = 'me';
DELETE FROM fencing.leases;
RESET SESSION AUTHORIZATION;
SET SESSION AUTHORIZATION regress_fencing_monitor;
SET search_path = '';
SELECT pg_catalog.count(*) FROM fencing.leases;
SELECT fencing.epoch() > 0 AS later_epoch;
SELECT * FROM fencing.fence;
UPDATE fencing.leases SET holder = 'me';
RESET search_path;
RESET SESSION AUTHORIZATION;
SET SESSION AUTHORIZATION regress_fencing_stranger;
SELECT count(*) FROM fencing.leases;
SELECT fencing.epoch();
RESET SESSION AUTHORIZATION;

\c :home
DROP DATABASE regress_fencing_leases;
DROP ROLE regress_fencing_owner, regress_fencing_monitor, regress_fencing_stranger;
