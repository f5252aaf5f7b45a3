-- prune: forget resources whose lease ended long ago. In a database of its own, because it looks at all of them.
SELECT current_database() AS home \gset
CREATE DATABASE regress_fencing_prune;
\c regress_fencing_prune
CREATE EXTENSION fencing;

-- Nothing to prune.
SELECT fencing.prune();
SELECT fencing.prune('0');

-- One released, one expired, one that stands, one from elsewhere.
SELECT fencing.release('released', token) FROM fencing.acquire('released');
SELECT resource FROM fencing.acquire('expired', '1 millisecond');
SELECT resource FROM fencing.acquire('standing', '10 minutes');
SELECT fencing.advance('elsewhere', 34);
SELECT token AS before FROM fencing.lookup('released') \gset
SELECT pg_sleep(0.05);

-- Their end is not 7 days ago, nor an hour.
SELECT fencing.prune();
SELECT fencing.prune('1 hour');

-- Rolled back, it has forgotten nothing.
BEGIN;
SELECT fencing.prune('0');
ROLLBACK;
SELECT count(*) FROM fencing.lookup('released');

-- The two that have ended are forgotten; the lease that stands and the fence from elsewhere are not (I3).
SELECT fencing.prune('10 milliseconds');
SELECT n AS resource, count(l.token) AS known
FROM unnest(ARRAY['elsewhere', 'expired', 'released', 'standing']) AS n LEFT JOIN LATERAL fencing.lookup(n) AS l ON true
GROUP BY n ORDER BY n;
SELECT fencing.prune('0');

-- What is pruned is unknown, to its old holder as well (I9).
SELECT fencing.renew('released', :before) IS NULL AS lost, fencing.release('released', :before) AS released;

-- The next grant is greater all the same: tokens come from one sequence (I2, I3).
SELECT token > :before AS greater FROM fencing.acquire('released');
-- And it may come from elsewhere next time.
SELECT fencing.advance('expired', 7);

-- An idle time counts from the end of the lease, not from its grant.
SELECT resource FROM fencing.acquire('long ago', '400 milliseconds');
SELECT pg_sleep(0.5);
SELECT fencing.prune('30 minutes');
SELECT fencing.release('long ago', token) FROM fencing.lookup('long ago');

-- Many, in batches.
DO $$
BEGIN
    FOR i IN 1..1500 LOOP
        PERFORM fencing.release('many/' || i, token) FROM fencing.acquire('many/' || i);
        COMMIT;
    END LOOP;
END $$;
SELECT fencing.prune('1 hour');
SELECT fencing.prune('0');
SELECT count(*) FROM generate_series(1, 1500) AS i, fencing.lookup('many/' || i);

-- A batch holds nothing once its transaction is over.
SELECT count(*) FROM pg_catalog.pg_locks
WHERE pid = pg_catalog.pg_backend_pid() AND classid = 'fencing.fence'::pg_catalog.regclass;

\c :home
DROP DATABASE regress_fencing_prune;
