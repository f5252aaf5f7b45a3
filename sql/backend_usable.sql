-- An error in any of the functions leaves the session as it was: it can go on, and holds nothing of ours.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
CREATE SCHEMA test_backend_usable;
SET search_path = test_backend_usable;
\set SHOW_CONTEXT never
\set VERBOSITY sqlstate
CREATE TABLE account (id int PRIMARY KEY, balance int, token bigint);
INSERT INTO account VALUES (1, 100, 34);
SELECT fencing.protect('account', 'token');
-- Locks of ours that this session holds.
CREATE VIEW held AS
SELECT count(*) AS held FROM pg_catalog.pg_locks
WHERE pid = pg_catalog.pg_backend_pid() AND (classid = 'fencing.fence'::pg_catalog.regclass OR locktype IN ('advisory', 'userlock'));

-- Each function fails and works, in turn.
SELECT fencing.fast_forward(-1);
SELECT fencing.next_token() > 0 AS drawn;
SELECT fencing.acquire(NULL);
SELECT token AS t FROM fencing.acquire('usable/a', '10 minutes') \gset
SELECT fencing.renew('usable/a', 0);
SELECT fencing.renew('usable/a', :t) IS NOT NULL AS renewed;
SELECT fencing.lookup('');
SELECT resource FROM fencing.lookup('usable/a');
SELECT fencing.release('usable/a', NULL);
SELECT fencing.release('usable/a', :t);
SELECT fencing.advance('usable/a', 34);
SELECT fencing.advance('usable/b', 34);
SELECT fencing.advance('usable/b', 33);
SELECT fencing.advance('usable/b', 35);
SELECT fencing.acquire('usable/b');
SELECT fencing.forget(NULL);
SELECT fencing.forget('usable/b');
SELECT fencing.prune('-1 day');
SELECT fencing.prune('9 years');
SELECT fencing.protect('account', 'nope');
SELECT fencing.protect('account', 'token');
SELECT fencing.unprotect(NULL);
UPDATE account SET balance = 0;
UPDATE account SET token = 33;
UPDATE account SET token = 34;
TRUNCATE account;
SELECT * FROM account;
SELECT * FROM held;

-- A thousand of each, caught in one session; after each the next call works.
CREATE FUNCTION refused(statement text, times int DEFAULT 1000) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    first_state text;
BEGIN
    FOR i IN 1..times LOOP
        BEGIN
            EXECUTE statement;
            RETURN 'passed';
        EXCEPTION WHEN OTHERS THEN
            IF first_state IS NULL THEN
                first_state := SQLSTATE;
            ELSIF first_state <> SQLSTATE THEN
                RETURN 'first ' || first_state || ', then ' || SQLSTATE;
            END IF;
        END;
    END LOOP;
    RETURN times || ' times ' || first_state;
END $$;
SELECT refused('SELECT fencing.fast_forward(-1)');
SELECT refused('SELECT fencing.acquire(NULL)');
SELECT refused('SELECT fencing.acquire(''usable/c'', ''0'')');
SELECT refused('SELECT fencing.renew(''usable/c'', 0)');
SELECT refused('SELECT fencing.release(''usable/c'', 0)');
SELECT refused('SELECT fencing.prune(''-1 day'')');
SELECT fencing.advance('usable/d', 34);
SELECT refused('SELECT fencing.advance(''usable/d'', 33)');
SELECT refused('SELECT fencing.acquire(''usable/d'')');
SELECT refused('SELECT fencing.forget(NULL)');
SELECT refused('SELECT fencing.lookup(NULL)');
SELECT refused('SELECT fencing.protect(''account'', ''nope'')');
SELECT refused('SELECT fencing.guard()');
SELECT refused('UPDATE account SET balance = 0');
SELECT refused('UPDATE account SET token = 33');
SELECT refused('UPDATE account SET token = -1');
SELECT refused('INSERT INTO account VALUES (2, 0)');
SELECT refused('DELETE FROM account');
SELECT refused('TRUNCATE account');
SELECT refused('SET LOCAL fencing.token = -1');
SELECT * FROM held;
-- Grants and errors in one transaction: what was granted in a part that failed is free again.
DO $$
BEGIN
    FOR i IN 1..1000 LOOP
        BEGIN
            PERFORM fencing.acquire('usable/e', '10 minutes');
            UPDATE account SET balance = i, token = 34;
            UPDATE account SET balance = 0;
            RAISE EXCEPTION 'passed';
        EXCEPTION WHEN SQLSTATE 'TK002' THEN
            NULL;
        END;
    END LOOP;
END $$;
SELECT count(*) FROM fencing.lookup('usable/e');
SELECT * FROM held;
SELECT * FROM account;

-- What a transaction holds, it holds until its end: not longer, and nothing after ROLLBACK TO.
BEGIN;
SELECT resource FROM fencing.acquire('usable/f', '10 minutes');
SELECT held > 0 AS held FROM held;
COMMIT;
SELECT * FROM held;
BEGIN;
SAVEPOINT s;
SELECT resource FROM fencing.acquire('usable/g', '10 minutes');
SELECT held > 0 AS held FROM held;
ROLLBACK TO s;
SELECT * FROM held;
COMMIT;
-- Who gets no row holds nothing.
BEGIN;
SELECT count(*) FROM fencing.acquire('usable/f', wait => '20 milliseconds');
SELECT * FROM held;
COMMIT;
-- A guarded write holds nothing of ours (I6).
BEGIN;
UPDATE account SET balance = 101, token = 35;
SELECT * FROM held;
COMMIT;
-- A wait that is cancelled leaves no place in the queue.
SET statement_timeout = '100ms';
SELECT count(*) FROM fencing.acquire('usable/f', wait => '30 seconds');
RESET statement_timeout;
SELECT * FROM held;
SELECT resource FROM fencing.acquire('usable/f', wait => '5 seconds', steal => 'always');

-- And all of it still works.
SELECT token AS t FROM fencing.acquire('usable/h', '10 minutes') \gset
SELECT fencing.renew('usable/h', :t) IS NOT NULL AS renewed;
SELECT fencing.release('usable/h', :t);
UPDATE account SET balance = 102, token = 36 RETURNING *;

SET client_min_messages = warning;
DROP SCHEMA test_backend_usable CASCADE;
