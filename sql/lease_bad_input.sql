-- Bad input of acquire, renew, release, prune and lookup: each is an error of its own kind and changes nothing.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
SELECT token AS t FROM fencing.acquire('bad/standing', '1 hour', 'w1') \gset
SELECT lease::text AS before FROM fencing.lookup('bad/standing') AS lease \gset
SELECT fencing.next_token() AS drawn \gset

-- One of each kind in full.
SELECT * FROM fencing.acquire(NULL);
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM fencing.acquire('');
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM fencing.acquire(repeat('x', 513));
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM fencing.acquire('bad/ttl', NULL);
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM fencing.acquire('bad/ttl', '0');
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM fencing.acquire('bad/ttl', '11 years');
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM fencing.acquire('bad/wait', wait => NULL);
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM fencing.acquire('bad/wait', wait => '61 seconds');
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM fencing.acquire('bad/wait', wait => '-1 second');
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM fencing.acquire('bad/steal', steal => 'sometimes');
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM fencing.acquire('bad/steal', steal => NULL);
\echo :LAST_ERROR_SQLSTATE
-- same_holder has to say which.
SELECT * FROM fencing.acquire('bad/steal', steal => 'same_holder');
\echo :LAST_ERROR_SQLSTATE
SELECT fencing.renew('bad/standing', NULL);
\echo :LAST_ERROR_SQLSTATE
SELECT fencing.renew('bad/standing', 0);
\echo :LAST_ERROR_SQLSTATE
SELECT fencing.prune(NULL);
\echo :LAST_ERROR_SQLSTATE
SELECT fencing.prune('-1 day');
\echo :LAST_ERROR_SQLSTATE

-- From here on the code is the point.
\set VERBOSITY sqlstate

-- 512 bytes are a name, 513 are none; bytes, not letters.
SELECT octet_length(resource) FROM fencing.acquire(repeat('x', 512));
SELECT octet_length(resource), length(resource) FROM fencing.acquire(repeat(U&'\00e9', 256));
SELECT * FROM fencing.acquire(repeat(U&'\00e9', 257));
SELECT * FROM fencing.acquire(repeat('x', 1000000));

-- The same names everywhere.
SELECT fencing.renew(NULL, 1);
SELECT fencing.renew('', 1);
SELECT fencing.renew(repeat('x', 513), 1);
SELECT fencing.release(NULL, 1);
SELECT fencing.release('', 1);
SELECT fencing.release(repeat('x', 513), 1);
SELECT * FROM fencing.lookup(NULL);
SELECT * FROM fencing.lookup('');
SELECT * FROM fencing.lookup(repeat('x', 513));

-- A time to live is positive ...
SELECT * FROM fencing.acquire('bad/ttl', '-1 second');
SELECT * FROM fencing.acquire('bad/ttl', '-1 month');
SELECT * FROM fencing.acquire('bad/ttl', '1 day -24 hours');
-- ... also where months and days pull in two directions ...
SELECT * FROM fencing.acquire('bad/ttl', '1 month -40 days');
SELECT * FROM fencing.acquire('bad/ttl', '1 day -25 hours');
SELECT holder FROM fencing.acquire('bad/mixed 1', '-1 month 40 days', 'positive all the same');
SELECT holder FROM fencing.acquire('bad/mixed 2', '1 day -23 hours', 'positive all the same');
-- ... and not more than 10 years.
SELECT holder FROM fencing.acquire('bad/10 years', '10 years', 'ten years');
SELECT holder FROM fencing.acquire('bad/120 months', '120 months', 'ten years');
SELECT * FROM fencing.acquire('bad/ttl', '10 years 1 microsecond');
SELECT * FROM fencing.acquire('bad/ttl', '121 months');
SELECT * FROM fencing.acquire('bad/ttl', '3660 days');
SELECT * FROM fencing.acquire('bad/ttl', '87900 hours');
SELECT * FROM fencing.acquire('bad/ttl', '178000000 years');
SELECT * FROM fencing.acquire('bad/ttl', '2147483647 days');
SELECT * FROM fencing.acquire('bad/ttl', '2147483647 months');
SELECT * FROM fencing.acquire('bad/ttl', '-178000000 years');
SELECT * FROM fencing.acquire('bad/ttl', '2562047788 hours');
SELECT holder FROM fencing.acquire('bad/1 us', '1 microsecond', 'short');

-- An interval can be infinite from PostgreSQL 17 on; before that the type refuses it.
\set VERBOSITY default
DO $$
DECLARE
    infinite text;
BEGIN
    FOREACH infinite IN ARRAY ARRAY['infinity', '-infinity'] LOOP
        BEGIN
            PERFORM fencing.acquire('bad/ttl', infinite::interval);
            RAISE EXCEPTION 'granted for ever';
        EXCEPTION WHEN invalid_parameter_value OR invalid_datetime_format THEN
            NULL;
        END;
        BEGIN
            PERFORM fencing.renew('bad/standing', (SELECT token FROM fencing.lookup('bad/standing')), infinite::interval);
            RAISE EXCEPTION 'renewed for ever';
        EXCEPTION WHEN invalid_parameter_value OR invalid_datetime_format THEN
            NULL;
        END;
        BEGIN
            PERFORM fencing.acquire('bad/wait', wait => infinite::interval);
            RAISE EXCEPTION 'waits for ever';
        EXCEPTION WHEN invalid_parameter_value OR invalid_datetime_format THEN
            NULL;
        END;
    END LOOP;
    BEGIN
        PERFORM fencing.prune('-infinity');
        RAISE EXCEPTION 'pruned what has not ended';
    EXCEPTION WHEN invalid_parameter_value OR invalid_datetime_format THEN
        NULL;
    END;
END $$;
\set VERBOSITY sqlstate

-- renew keeps to the same rules.
SELECT fencing.renew('bad/standing', :t, '0');
SELECT fencing.renew('bad/standing', :t, '-1 second');
SELECT fencing.renew('bad/standing', :t, '1 month -40 days');
SELECT fencing.renew('bad/standing', :t, '10 years 1 microsecond');
SELECT fencing.renew('bad/standing', :t, '178000000 years');
-- Whether the token is right or wrong.
SELECT fencing.renew('bad/standing', :t + 1, '0');
SELECT fencing.renew('bad/nobody', 1, '0');

-- A token is 1 or more, and never NULL.
SELECT fencing.renew('bad/standing', -1);
SELECT fencing.renew('bad/standing', -9223372036854775808);
SELECT fencing.release('bad/standing', NULL);
SELECT fencing.release('bad/standing', 0);
SELECT fencing.release('bad/standing', -1);

-- A wait is 0 to 1 minute.
SELECT holder FROM fencing.acquire('bad/1 minute', holder => 'free at once', wait => '1 minute');
SELECT * FROM fencing.acquire('bad/wait', wait => '1 minute 1 microsecond');
SELECT * FROM fencing.acquire('bad/wait', wait => '1 day');
SELECT * FROM fencing.acquire('bad/wait', wait => '1 month');
SELECT * FROM fencing.acquire('bad/wait', wait => '178000000 years');
SELECT * FROM fencing.acquire('bad/wait', wait => '-1 microsecond');
SELECT * FROM fencing.acquire('bad/wait', wait => '-1 month');

-- steal is one of three words.
SELECT * FROM fencing.acquire('bad/steal', steal => '');
SELECT * FROM fencing.acquire('bad/steal', steal => 'same holder');
SELECT * FROM fencing.acquire('bad/steal', steal => 'always ');
-- Whether there is somebody to steal from or not.
SELECT * FROM fencing.acquire('bad/standing', steal => 'sometimes');
SELECT * FROM fencing.acquire('bad/standing', steal => 'same_holder');

-- Months are of 30 days when a span is compared, and as long as they are when it is added: this is more than zero, and ends
-- before it begins.
SELECT * FROM fencing.acquire('bad/ttl', '-12 months 361 days');

-- A time to look back is 0 or more.
SELECT fencing.prune('-1 microsecond');
SELECT fencing.prune('1 month -40 days');

-- Nothing of this has changed a lease, made a resource or drawn a token; the eight grants above took one each.
\set VERBOSITY default
SELECT lease::text = :'before' AS unchanged FROM fencing.lookup('bad/standing') AS lease;
SELECT name, count(l.token) AS known
FROM unnest(ARRAY['bad/nobody', 'bad/steal', 'bad/ttl', 'bad/wait']) AS name LEFT JOIN LATERAL fencing.lookup(name) AS l ON true
GROUP BY name ORDER BY name;
SELECT fencing.next_token() - :drawn AS drawn;
