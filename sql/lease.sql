-- Leases: one holder of a resource at a time, each grant with a greater token.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;

-- A free resource is granted: one row, which says all there is to know.
SELECT token AS t1 FROM fencing.acquire('lease/a', '10 minutes', 'w1') \gset
SELECT resource, token = :t1 AS same_token, holder, ttl, acquired_at <= clock_timestamp() AS acquired,
    expires_at - acquired_at AS lasts
FROM fencing.lookup('lease/a');
-- The first token is 1 or more; 0 is free to mean "none".
SELECT :t1 > 0 AS positive;

-- While it stands nobody gets a row: neither another holder nor the holder itself (not re-entrant).
SELECT * FROM fencing.acquire('lease/a', '10 minutes', 'w2');
SELECT * FROM fencing.acquire('lease/a', '10 minutes', 'w1');
-- Nor in the select list.
SELECT fencing.acquire('lease/a');

-- Who gets no row burns no token.
SELECT fencing.next_token() AS before \gset
SELECT count(*) FROM fencing.acquire('lease/a');
SELECT count(*) FROM fencing.acquire('lease/a', wait => '20 milliseconds');
SELECT fencing.next_token() - :before AS step;
-- Nor does one who looks, renews or releases.
SELECT fencing.next_token() AS before \gset
SELECT count(*) FROM fencing.lookup('lease/a');
SELECT fencing.renew('lease/a', :t1) IS NOT NULL AS renewed;
SELECT fencing.release('lease/a', :t1 + 1000);
SELECT fencing.next_token() - :before AS step;

-- Consecutive grants are one step apart.
SELECT token AS b FROM fencing.acquire('lease/step 1') \gset
SELECT token - :b AS step FROM fencing.acquire('lease/step 2');

-- renew: the new expiry, the same token, however often.
SELECT expires_at AS before FROM fencing.lookup('lease/a') \gset
SELECT count(fencing.renew('lease/a', :t1)) AS renewals FROM generate_series(1, 20);
SELECT token = :t1 AS same_token, expires_at > :'before' AS later, holder, ttl FROM fencing.lookup('lease/a');

-- renew with a TTL of its own: that is the TTL from then on.
SELECT fencing.renew('lease/a', :t1, '20 minutes') - clock_timestamp() > '19 minutes' AS long;
SELECT ttl FROM fencing.lookup('lease/a');
SELECT fencing.renew('lease/a', :t1) - clock_timestamp() > '19 minutes' AS long;
-- It may be shorter as well.
SELECT fencing.renew('lease/a', :t1, '5 minutes') - clock_timestamp() BETWEEN '4 minutes' AND '5 minutes' AS short;
SELECT ttl FROM fencing.lookup('lease/a');
-- It answers with what lookup shows.
SELECT fencing.renew('lease/a', :t1) AS expiry \gset
SELECT expires_at = :'expiry' AS same FROM fencing.lookup('lease/a');

-- A token that is not the current one renews and releases nothing, and that is a value, no error (I9).
SELECT lease::text AS before FROM fencing.lookup('lease/a') AS lease \gset
SELECT fencing.renew('lease/a', :t1 + 1) IS NULL AS lost, fencing.release('lease/a', :t1 + 1) AS released;
SELECT fencing.renew('lease/a', 9223372036854775807) IS NULL AS lost, fencing.release('lease/a', 9223372036854775807) AS released;
SELECT lease::text = :'before' AS unchanged FROM fencing.lookup('lease/a') AS lease;
-- For a resource that nobody ever heard of as well; only acquire makes one.
SELECT fencing.renew('lease/unknown', :t1) IS NULL AS lost, fencing.release('lease/unknown', :t1) AS released;
SELECT count(*) FROM fencing.lookup('lease/unknown');

-- release: true once, then false. The fence stays, and nothing is left to renew.
SELECT fencing.release('lease/a', :t1);
SELECT fencing.release('lease/a', :t1);
SELECT fencing.renew('lease/a', :t1) IS NULL AS lost;
SELECT resource, token = :t1 AS same_token, holder, ttl, acquired_at, expires_at FROM fencing.lookup('lease/a');

-- The next grant is greater, also for the same holder (I2).
SELECT token AS t2 FROM fencing.acquire('lease/a', '10 minutes', 'w1') \gset
SELECT :t2 > :t1 AS greater;
-- Identity is the token, never the name: the old incarnation of w1 neither extends nor ends the new lease (I9).
SELECT lease::text AS before FROM fencing.lookup('lease/a') AS lease \gset
SELECT fencing.renew('lease/a', :t1) IS NULL AS lost, fencing.release('lease/a', :t1) AS released;
SELECT lease::text = :'before' AS unchanged FROM fencing.lookup('lease/a') AS lease;

-- steal => 'never' is the default.
SELECT count(*) FROM fencing.acquire('lease/a', '10 minutes', 'w1', steal => 'never');
-- steal => 'same_holder' takes over from the same label at once ...
SELECT token AS t3, holder AS h FROM fencing.acquire('lease/a', '10 minutes', 'w1', steal => 'same_holder') \gset
SELECT :t3 > :t2 AS greater, :'h' AS holder;
SELECT fencing.renew('lease/a', :t2) IS NULL AS lost, fencing.release('lease/a', :t2) AS released;
-- ... and from no other.
SELECT count(*) FROM fencing.acquire('lease/a', '10 minutes', 'W1', steal => 'same_holder');
SELECT token = :t3 AS unchanged FROM fencing.lookup('lease/a');
-- steal => 'always' takes over from anybody.
SELECT token AS t4, holder AS h FROM fencing.acquire('lease/a', '10 minutes', 'operator', steal => 'always') \gset
SELECT :t4 > :t3 AS greater, :'h' AS holder;
-- Also without a label of its own.
SELECT token > :t4 AS greater, holder FROM fencing.acquire('lease/a', steal => 'always');
-- A lease without a label is nobody's to take with same_holder.
SELECT count(*) FROM fencing.acquire('lease/a', '10 minutes', 'w1', steal => 'same_holder');
-- An empty label is a label.
SELECT holder = '' AS empty FROM fencing.acquire('lease/empty', '10 minutes', '');
SELECT count(*) FROM fencing.acquire('lease/empty', '10 minutes', 'w1', steal => 'same_holder');
SELECT holder = '' AS empty FROM fencing.acquire('lease/empty', '10 minutes', '', steal => 'same_holder');
-- Where nothing stands there is nothing to steal: an ordinary grant.
SELECT resource, holder FROM fencing.acquire('lease/b', '10 minutes', 'w1', steal => 'same_holder');
SELECT resource, holder FROM fencing.acquire('lease/c', '10 minutes', 'w1', steal => 'always');

-- An expired lease is still shown, until somebody takes or releases it.
SELECT token AS e1 FROM fencing.acquire('lease/e', '1 millisecond', 'w1') \gset
SELECT pg_sleep(0.02);
SELECT token = :e1 AS same_token, holder, ttl, expires_at < clock_timestamp() AS expired FROM fencing.lookup('lease/e');
-- It is not revived, and trying changes nothing.
SELECT lease::text AS before FROM fencing.lookup('lease/e') AS lease \gset
SELECT fencing.renew('lease/e', :e1) IS NULL AS lost, fencing.renew('lease/e', :e1, '1 hour') IS NULL AS also_lost;
SELECT lease::text = :'before' AS unchanged FROM fencing.lookup('lease/e') AS lease;
-- Anybody may take it.
SELECT token AS e2, holder AS h FROM fencing.acquire('lease/e', '1 millisecond', 'w2') \gset
SELECT :e2 > :e1 AS greater, :'h' AS holder;
SELECT fencing.renew('lease/e', :e1) IS NULL AS lost, fencing.release('lease/e', :e1) AS released;
-- Its holder may still release it, once.
SELECT pg_sleep(0.02);
SELECT fencing.release('lease/e', :e2);
SELECT fencing.release('lease/e', :e2);

-- A waiting call gets no row when the wait is over ...
SELECT count(*) FROM fencing.acquire('lease/w', '10 minutes');
DO $$
DECLARE
    begun timestamptz := clock_timestamp();
    rows bigint;
BEGIN
    SELECT count(*) INTO rows FROM fencing.acquire('lease/w', wait => '300 milliseconds');
    IF rows <> 0 OR clock_timestamp() - begun NOT BETWEEN '300 milliseconds' AND '5 seconds' THEN
        RAISE EXCEPTION '% row(s) after %', rows, clock_timestamp() - begun;
    END IF;
END $$;
-- ... without a wait at once ...
DO $$
DECLARE
    begun timestamptz := clock_timestamp();
BEGIN
    FOR i IN 1..50 LOOP
        PERFORM fencing.acquire('lease/w');
    END LOOP;
    IF clock_timestamp() - begun > '5 seconds' THEN
        RAISE EXCEPTION 'after %', clock_timestamp() - begun;
    END IF;
END $$;
-- ... and the lease as soon as the one before has expired, for its full time from then on, though it
-- waited longer than that (I10: the clock is read after the lock).
SELECT expires_at AS before FROM fencing.acquire('lease/x', '400 milliseconds') \gset
SELECT acquired_at >= :'before' AS after_expiry, acquired_at < :'before'::timestamptz + '10 seconds' AS soon,
    expires_at - acquired_at AS lasts
FROM fencing.acquire('lease/x', '100 milliseconds', wait => '30 seconds');

-- The time of a grant is the clock's, not that of the transaction's start.
BEGIN;
SELECT pg_sleep(0.05);
SELECT acquired_at - now() >= '50 milliseconds' AS late, expires_at - acquired_at AS lasts
FROM fencing.acquire('lease/clock', '1 minute');
SELECT fencing.renew('lease/clock', token) - now() > '1 minute' AS late FROM fencing.lookup('lease/clock');
COMMIT;

-- A grant that is rolled back never was; its token is not seen again (I1).
BEGIN;
SELECT token AS r1 FROM fencing.acquire('lease/r', '10 minutes') \gset
ROLLBACK;
SELECT count(*) FROM fencing.lookup('lease/r');
SELECT fencing.renew('lease/r', :r1) IS NULL AS lost, fencing.release('lease/r', :r1) AS released;
BEGIN;
SAVEPOINT s;
SELECT token AS r2 FROM fencing.acquire('lease/r', '10 minutes') \gset
ROLLBACK TO s;
SELECT token AS r3 FROM fencing.acquire('lease/r', '10 minutes') \gset
COMMIT;
SELECT :r1 < :r2 AND :r2 < :r3 AS greater;
SELECT token = :r3 AS stands FROM fencing.lookup('lease/r');
-- A release that is rolled back leaves the lease.
BEGIN;
SELECT fencing.release('lease/r', :r3);
SELECT count(*) FROM fencing.acquire('lease/r');
ROLLBACK;
SELECT fencing.renew('lease/r', :r3) IS NULL AS lost;
BEGIN;
SELECT fencing.release('lease/r', :r3);
ROLLBACK;
SELECT fencing.renew('lease/r', :r3) IS NOT NULL AS renewed;
-- A renewal that is rolled back as well.
SELECT expires_at AS before FROM fencing.lookup('lease/r') \gset
BEGIN;
SELECT fencing.renew('lease/r', :r3, '5 hours') > :'before' AS later;
ROLLBACK;
SELECT expires_at = :'before' AS unchanged, ttl FROM fencing.lookup('lease/r');

-- Several resources in one transaction, and in one statement.
BEGIN;
SELECT resource FROM fencing.acquire('lease/m1');
SELECT resource FROM fencing.acquire('lease/m2');
COMMIT;
SELECT (fencing.acquire('lease/n' || i)).resource FROM generate_series(1, 3) AS i ORDER BY 1;
SELECT a.resource, a.token < b.token AS ascending, b.resource
FROM fencing.acquire('lease/o1') AS a CROSS JOIN LATERAL fencing.acquire('lease/o2') AS b;

SELECT count(*) FROM generate_series(1, 300) AS i, fencing.acquire('lease/many ' || i);
-- A grant can be renewed and released by the statement that got it.
SELECT l.resource, fencing.renew(l.resource, l.token) IS NOT NULL AS renewed,
    fencing.release(l.resource, l.token) AS released, fencing.release(l.resource, l.token) AS again
FROM fencing.acquire('lease/s') AS l;
-- A transaction may change what it has done itself, as often as it likes.
BEGIN;
SELECT token AS v1 FROM fencing.acquire('lease/v', '10 minutes', 'w1') \gset
SELECT token AS v2 FROM fencing.acquire('lease/v', '10 minutes', 'w2', steal => 'always') \gset
SELECT fencing.release('lease/v', :v1), fencing.release('lease/v', :v2);
SELECT token AS v3 FROM fencing.acquire('lease/v', '10 minutes', 'w3') \gset
SAVEPOINT s;
SELECT fencing.forget('lease/v');
SELECT token AS v4 FROM fencing.acquire('lease/v', '10 minutes', 'w4') \gset
ROLLBACK TO s;
SELECT fencing.renew('lease/v', :v4) IS NULL AS lost, fencing.renew('lease/v', :v3) IS NOT NULL AS renewed;
COMMIT;
SELECT :v1 < :v2 AND :v2 < :v3 AND :v3 < :v4 AS ascending, token = :v3 AS stands, holder FROM fencing.lookup('lease/v');

-- A function may acquire for its caller.
CREATE FUNCTION pg_temp.work() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    mine fencing.lease;
BEGIN
    SELECT * INTO mine FROM fencing.acquire('lease/f', '10 minutes', 'function');
    RETURN mine.holder || ' holds ' || mine.resource;
END $$;
SELECT pg_temp.work();
-- A lease that was refused comes back as NULL there.
SELECT pg_temp.work() IS NULL AS refused;

-- Names are compared byte by byte: case, blanks at the end and ways to write one letter make a difference.
SELECT resource FROM fencing.acquire('lease/Case', '10 minutes');
SELECT resource FROM fencing.acquire('lease/case', '10 minutes');
SELECT resource || '|' AS resource FROM fencing.acquire('lease/case ', '10 minutes');
SELECT octet_length(resource) FROM fencing.acquire('lease/' || U&'\00e9', '10 minutes');
SELECT octet_length(resource) FROM fencing.acquire('lease/' || U&'e\0301', '10 minutes');
SELECT resource FROM fencing.acquire('lease/"''%\{}' || chr(10) || '$1', '10 minutes');
SELECT count(*) FROM fencing.acquire('lease/"''%\{}' || chr(10) || '$1', '10 minutes');

-- A prepared statement gets today's answer each time.
PREPARE take (text) AS SELECT resource FROM fencing.acquire($1, '10 minutes');
EXECUTE take('lease/p');
EXECUTE take('lease/p');
SELECT fencing.release('lease/p', token) FROM fencing.lookup('lease/p');
EXECUTE take('lease/p');
DEALLOCATE take;

-- A read-only transaction takes, renews and ends nothing; it may look.
BEGIN READ ONLY;
SELECT resource FROM fencing.lookup('lease/p');
SELECT * FROM fencing.acquire('lease/ro');
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
BEGIN READ ONLY;
SELECT fencing.renew('lease/p', 1);
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
BEGIN READ ONLY;
SELECT fencing.release('lease/p', 1);
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
BEGIN READ ONLY;
SELECT fencing.prune();
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;

-- A grant that is not waited for may be lost in a crash; whoever asks for that says so, and gets a lease as good as any other meanwhile.
SET fencing.durable_grants = off;
SELECT token AS d1 FROM fencing.acquire('lease/d', '10 minutes') \gset
RESET fencing.durable_grants;
SELECT token = :d1 AS stands FROM fencing.lookup('lease/d');
SET synchronous_commit = off;
SELECT token > :d1 AS greater FROM fencing.acquire('lease/d', steal => 'always');
RESET synchronous_commit;
