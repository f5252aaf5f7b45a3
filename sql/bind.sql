-- bind: the transaction is tied to a resource and its token, and commits only while that is the current one (I5).
-- (How it fares against other sessions is in the isolation tests; here the transaction itself raises the fence.)
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
CREATE SCHEMA test_bind;
SET search_path = test_bind;
\set SHOW_CONTEXT never
SELECT token AS stale FROM fencing.acquire('bind/job-1', '1 hour', 'w1') \gset
SELECT token AS valid FROM fencing.acquire('bind/job-1', '1 hour', 'w2', steal => 'always') \gset
SELECT token AS other FROM fencing.acquire('bind/job-2', '1 hour', 'w3') \gset
SELECT :other + 1000000 AS unissued \gset
CREATE TABLE task (id int PRIMARY KEY, job_id int, state text);
INSERT INTO task VALUES (1, 1, 'old'), (2, 2, 'old');
SELECT fencing.protect('task', resource => 'bind/job-{job_id}');
CREATE TABLE unguarded (id int);

-- On a resource issued here: exactly the current token.
BEGIN;
SELECT fencing.bind('bind/job-1', :valid) = :valid AS bound;
SELECT resource, token = :valid AS valid FROM fencing.bound();
COMMIT;
SELECT * FROM fencing.bound();
\set VERBOSITY terse
BEGIN;
SELECT fencing.bind('bind/job-1', :stale);
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
BEGIN;
SELECT fencing.bind('bind/job-1', :unissued);
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
-- Unknown, and forgotten.
BEGIN;
SELECT fencing.bind('bind/job-3', 1);
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
SELECT token AS forgotten FROM fencing.acquire('bind/job-3') \gset
SELECT fencing.forget('bind/job-3');
\set VERBOSITY sqlstate
SELECT fencing.bind('bind/job-3', :forgotten);
-- Pruned. (Only what has ended very long ago: other tests have leases, too.)
SELECT token AS pruned FROM fencing.acquire('bind/job-4') \gset
SELECT fencing.release('bind/job-4', :pruned);
SELECT fencing.bind('bind/job-4', :pruned) = :pruned AS bound_though_released;
UPDATE fencing.fence SET released_at = now() - interval '9 years 11 months' WHERE resource = 'bind/job-4';
SELECT fencing.prune('9 years 10 months') >= 1 AS pruned;
SELECT fencing.bind('bind/job-4', :pruned);
-- The other's.
SELECT fencing.bind('bind/job-2', :valid);
SELECT fencing.bind('bind/job-1', :other);
-- Bad arguments.
SELECT fencing.bind(NULL, :valid);
SELECT fencing.bind('bind/job-1', NULL);
SELECT fencing.bind('', :valid);
SELECT fencing.bind(repeat('x', 513), :valid);
SELECT fencing.bind('bind/job-1', 0);
SELECT fencing.bind('bind/job-1', -1);
SELECT fencing.bind(token => :valid, resource => 'bind/job-1') = :valid AS named;

-- It protects the whole transaction, whatever tables it writes, or none.
BEGIN;
SELECT fencing.bind('bind/job-1', :valid) \gset
INSERT INTO unguarded VALUES (1);
SELECT token AS next FROM fencing.acquire('bind/job-1', '1 hour', 'w3', steal => 'always') \gset
\set VERBOSITY terse
COMMIT;
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
SELECT * FROM unguarded;
-- It has undone the grant as well.
SELECT token = :valid AS stands FROM fencing.lookup('bind/job-1');
-- Bound to the new token as well: of two bindings the higher counts, and a lower one is stale.
BEGIN;
SELECT fencing.bind('bind/job-1', :valid) \gset
SELECT token AS next FROM fencing.acquire('bind/job-1', '1 hour', 'w3', steal => 'always') \gset
SELECT fencing.bind('bind/job-1', :next) = :next AS bound;
SELECT resource, token = :next AS next FROM fencing.bound();
SAVEPOINT here;
SELECT fencing.bind('bind/job-1', :valid);
ROLLBACK TO here;
COMMIT;
SELECT :valid AS stale, :next AS valid \gset
-- Twice the same is once.
BEGIN;
SELECT fencing.bind('bind/job-1', :valid) \gset
SELECT fencing.bind('bind/job-1', :valid) \gset
SELECT count(*) FROM fencing.bound();
COMMIT;
-- Several resources, in the order in which they were bound.
BEGIN;
SELECT fencing.bind('bind/job-2', :other) \gset
SELECT fencing.bind('bind/job-1', :valid) \gset
SELECT resource, token = :valid AS valid FROM fencing.bound();
COMMIT;

-- A release or an expiry is no takeover: what is bound commits (I10).
SELECT token AS short FROM fencing.acquire('bind/short', '1 ms') \gset
SELECT pg_sleep(0.01);
SELECT fencing.bind('bind/short', :short) = :short AS bound;
BEGIN;
SELECT fencing.bind('bind/short', :short) \gset
SELECT fencing.release('bind/short', :short);
COMMIT;
BEGIN;
SELECT fencing.bind('bind/short', :short) \gset
SELECT fencing.forget('bind/short');
COMMIT;
SELECT count(*) FROM fencing.lookup('bind/short');

-- From elsewhere: the fence or more; more raises the fence at the seal.
SELECT fencing.advance('bind/elsewhere', 33);
SELECT fencing.bind('bind/elsewhere', 32);
SELECT fencing.bind('bind/elsewhere', 33);
SELECT token FROM fencing.lookup('bind/elsewhere');
BEGIN;
SELECT fencing.bind('bind/elsewhere', 34);
SELECT token FROM fencing.lookup('bind/elsewhere');
COMMIT;
SELECT token FROM fencing.lookup('bind/elsewhere');
BEGIN;
SELECT fencing.bind('bind/elsewhere', 35);
ROLLBACK;
SELECT token FROM fencing.lookup('bind/elsewhere');
BEGIN;
SELECT fencing.bind('bind/elsewhere', 35);
SELECT fencing.bind('bind/elsewhere', 36);
SAVEPOINT here;
SELECT fencing.bind('bind/elsewhere', 35);
ROLLBACK TO here;
SELECT * FROM fencing.bound();
COMMIT;
SELECT token FROM fencing.lookup('bind/elsewhere');
BEGIN;
SELECT fencing.bind('bind/elsewhere', 37);
SELECT fencing.advance('bind/elsewhere', 38);
\set VERBOSITY default
COMMIT;
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
SELECT token FROM fencing.lookup('bind/elsewhere');

-- In a read-only transaction: bound, unless it would have to raise.
BEGIN READ ONLY;
SELECT fencing.bind('bind/job-1', :valid) = :valid AS bound;
SELECT fencing.bind('bind/elsewhere', 36);
COMMIT;
BEGIN READ ONLY;
SELECT fencing.bind('bind/elsewhere', 37);
\set VERBOSITY default
COMMIT;
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
BEGIN;
SELECT fencing.bind('bind/elsewhere', 37);
SET TRANSACTION READ ONLY;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE;
SELECT fencing.bind('bind/elsewhere', 37);
COMMIT;
SELECT token FROM fencing.lookup('bind/elsewhere');

-- One statement in autocommit.
UPDATE task SET state = 'one statement' FROM fencing.bind('bind/job-1', :valid) WHERE id = 1 RETURNING id, state;
UPDATE task SET state = 'stale' FROM fencing.bind('bind/job-1', :stale) WHERE id = 1;
INSERT INTO task SELECT 3, 1, 'one statement' FROM fencing.bind('bind/job-1', :valid) RETURNING id, state;
DELETE FROM task USING fencing.bind('bind/job-1', :valid) WHERE id = 3 RETURNING id, state;
WITH b AS (SELECT fencing.bind('bind/job-1', :valid))
UPDATE task SET state = 'referenced' FROM b WHERE id = 1 RETURNING id, state;
-- A CTE that nothing refers to does not run.
\set VERBOSITY default
WITH b AS (SELECT fencing.bind('bind/job-1', :valid))
UPDATE task SET state = 'unreferenced' WHERE id = 1;
\echo :LAST_ERROR_SQLSTATE
-- A binding ends with its transaction: alone in autocommit it protects nothing, and the next write says so.
SELECT fencing.bind('bind/job-1', :valid) = :valid AS bound;
UPDATE task SET state = 'alone' WHERE id = 1;
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
-- Several statements sent as one are one transaction.
SELECT fencing.bind('bind/job-1', :valid) = :valid AS bound \; UPDATE task SET state = 'together' WHERE id = 1 RETURNING id, state;

-- Savepoints: it goes with the one in which it was made, and stays with RELEASE.
BEGIN;
SAVEPOINT a;
SELECT fencing.bind('bind/job-1', :valid) \gset
SELECT count(*) FROM fencing.bound();
ROLLBACK TO a;
SELECT count(*) FROM fencing.bound();
UPDATE task SET state = 'missing' WHERE id = 1;
ROLLBACK TO a;
SELECT fencing.bind('bind/job-1', :valid) \gset
RELEASE a;
SELECT count(*) FROM fencing.bound();
UPDATE task SET state = 'released' WHERE id = 1;
COMMIT;

-- Inside functions, with and without exception blocks; with rights of their own.
CREATE FUNCTION work(resource text, token bigint, fail boolean) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    BEGIN
        PERFORM fencing.bind(resource, token);
        UPDATE test_bind.task SET state = 'in a block' WHERE id = 1;
        IF fail THEN
            RAISE EXCEPTION USING ERRCODE = 'ZZZZZ';
        END IF;
    EXCEPTION
        WHEN SQLSTATE 'ZZZZZ' THEN RETURN 'failed';
        WHEN SQLSTATE 'TK001' THEN RETURN 'stale';
    END;
    RETURN (SELECT state FROM test_bind.task WHERE id = 1);
END $$;
SELECT work('bind/job-1', :valid, false);
BEGIN;
SELECT work('bind/job-1', :valid, true);
SELECT count(*) FROM fencing.bound();
SELECT work('bind/job-1', :stale, false);
SELECT count(*) FROM fencing.bound();
SELECT work('bind/job-1', :valid, false);
SELECT count(*) FROM fencing.bound();
COMMIT;
CREATE FUNCTION bind_for_all(resource text, token bigint) RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = '' AS
    'SELECT fencing.bind(resource, token)';
CREATE ROLE regress_fencing_worker;
GRANT USAGE ON SCHEMA test_bind TO regress_fencing_worker;
GRANT SELECT, UPDATE ON task TO regress_fencing_worker;
SET SESSION AUTHORIZATION regress_fencing_worker;
BEGIN;
SELECT fencing.bind('bind/job-1', :valid);
ROLLBACK;
BEGIN;
SELECT bind_for_all('bind/job-1', :valid) = :valid AS bound;
SELECT count(*) FROM fencing.bound();
UPDATE task SET state = 'for all' WHERE id = 1;
COMMIT;
RESET SESSION AUTHORIZATION;

-- A procedure with its own COMMIT: each transaction wants a binding of its own.
CREATE PROCEDURE steps(token bigint, again boolean) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fencing.bind('bind/job-1', token);
    UPDATE test_bind.task SET state = 'step 1' WHERE id = 1;
    COMMIT;
    IF (SELECT count(*) FROM fencing.bound()) > 0 THEN
        RAISE EXCEPTION 'still bound';
    END IF;
    IF again THEN
        PERFORM fencing.bind('bind/job-1', token);
    END IF;
    UPDATE test_bind.task SET state = 'step 2' WHERE id = 1;
    ROLLBACK;
    PERFORM fencing.bind('bind/job-1', token);
    UPDATE test_bind.task SET state = 'step 3' WHERE id = 1;
    COMMIT AND CHAIN;
    PERFORM fencing.bind('bind/job-1', token);
    UPDATE test_bind.task SET state = state || ', 4' WHERE id = 1;
END $$;
CALL steps(:valid, true);
SELECT state FROM task WHERE id = 1;
CALL steps(:valid, false);
SELECT state FROM task WHERE id = 1;
CALL steps(:stale, true);
-- The seal of a COMMIT within a procedure refuses like any other.
CREATE PROCEDURE overtake(token bigint) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fencing.bind('bind/job-1', token);
    PERFORM fencing.acquire('bind/job-1', steal => 'always');
    COMMIT;
END $$;
CALL overtake(:valid);
SELECT token = :valid AS stands FROM fencing.lookup('bind/job-1');
CREATE PROCEDURE overtake_in_loop(resource text) LANGUAGE plpgsql AS $$
BEGIN
    FOR n IN 41..44 LOOP
        PERFORM fencing.bind(resource, n);
        COMMIT;
        IF n = 43 THEN
            PERFORM fencing.bind(resource, n);
            PERFORM fencing.advance(resource, n + 1);
            COMMIT;
        END IF;
    END LOOP;
END $$;
CALL overtake_in_loop('bind/elsewhere');
SELECT token FROM fencing.lookup('bind/elsewhere');

-- A cursor WITH HOLD runs to its end at COMMIT, before the seal: what it binds and writes then is sealed as well.
CREATE FUNCTION write(task_id int, word text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    UPDATE test_bind.task SET state = word WHERE id = task_id;
    RETURN task_id;
END $$;
INSERT INTO task SELECT n, 1, 'old' FROM generate_series(11, 13) AS n, fencing.bind('bind/job-1', :valid);
BEGIN;
SELECT fencing.bind('bind/job-1', :valid) \gset
DECLARE held CURSOR WITH HOLD FOR SELECT write(n, 'held') FROM generate_series(11, 13) AS n;
FETCH held;
SELECT id, state FROM task WHERE id > 10 ORDER BY id;
COMMIT;
SELECT id, state FROM task WHERE id > 10 ORDER BY id;
FETCH held;
CLOSE held;
-- Bound by the cursor alone.
BEGIN;
DECLARE held CURSOR WITH HOLD FOR SELECT fencing.bind('bind/elsewhere', n) FROM generate_series(50, 52) AS n;
COMMIT;
SELECT token FROM fencing.lookup('bind/elsewhere');
CLOSE held;
BEGIN;
DECLARE held CURSOR WITH HOLD FOR SELECT fencing.bind('bind/elsewhere', n) FROM generate_series(53, 50, -1) AS n;
COMMIT;
SELECT token FROM fencing.lookup('bind/elsewhere');
BEGIN;
DECLARE held CURSOR WITH HOLD FOR SELECT fencing.bind('bind/elsewhere', 53), fencing.advance('bind/elsewhere', 54);
COMMIT;
SELECT token FROM fencing.lookup('bind/elsewhere');
-- (As after every error that late in a COMMIT, the server keeps the cursor.)
CLOSE ALL;
-- One that writes without a token.
BEGIN;
DECLARE held CURSOR WITH HOLD FOR SELECT write(n, 'unbound') FROM generate_series(11, 13) AS n;
COMMIT;
-- An ordinary one ends with the transaction: what it has not run has not happened.
BEGIN;
SELECT fencing.bind('bind/job-1', :valid) \gset
DECLARE plain CURSOR FOR SELECT write(n, 'plain') FROM generate_series(11, 13) AS n;
FETCH plain;
COMMIT;
SELECT id, state FROM task WHERE id > 10 ORDER BY id;

-- Deferred constraints run at COMMIT, before the seal: what they write to guarded tables is judged and sealed.
CREATE TABLE trigger_of (id int);
CREATE FUNCTION deferred_write() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF new.id = 0 THEN
        PERFORM fencing.bind('bind/elsewhere', 60);
        PERFORM fencing.advance('bind/elsewhere', 61);
    END IF;
    UPDATE test_bind.task SET state = 'deferred' WHERE id = new.id;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER later AFTER INSERT ON trigger_of DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION deferred_write();
BEGIN;
SELECT fencing.bind('bind/job-1', :valid) \gset
INSERT INTO trigger_of VALUES (11);
SELECT state FROM task WHERE id = 11;
COMMIT;
SELECT state FROM task WHERE id = 11;
BEGIN;
SET LOCAL fencing.token = :valid;
INSERT INTO trigger_of VALUES (12);
COMMIT;
SELECT state FROM task WHERE id = 12;
\set VERBOSITY terse
INSERT INTO trigger_of VALUES (13);
\echo :LAST_ERROR_SQLSTATE
INSERT INTO trigger_of VALUES (0);
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
SELECT state FROM task WHERE id = 13;
BEGIN;
SET LOCAL fencing.token = :stale;
INSERT INTO trigger_of VALUES (13);
COMMIT;
BEGIN;
SELECT fencing.bind('bind/job-1', :valid) \gset
INSERT INTO trigger_of VALUES (13);
SELECT count(*) FROM fencing.acquire('bind/job-1', steal => 'always');
COMMIT;
-- Together with a cursor that is run at COMMIT.
BEGIN;
SELECT fencing.bind('bind/job-1', :valid) \gset
DECLARE held CURSOR WITH HOLD FOR SELECT write(n, 'held too') FROM generate_series(11, 12) AS n;
INSERT INTO trigger_of VALUES (13);
COMMIT;
CLOSE held;
SELECT id, state FROM task WHERE id > 10 ORDER BY id;

-- bound() while it is read: what is rolled back meanwhile is not shown.
BEGIN;
SELECT fencing.bind('bind/job-1', :valid) \gset
SAVEPOINT here;
SELECT fencing.bind('bind/job-2', :other) \gset
DECLARE reading CURSOR FOR SELECT resource FROM fencing.bound();
FETCH ALL FROM reading;
ROLLBACK TO here;
SELECT resource FROM fencing.bound();
COMMIT;
-- A token written with is not a binding.
BEGIN;
SET LOCAL fencing.token = :valid;
UPDATE task SET state = 'setting' WHERE id = 1;
SELECT count(*) FROM fencing.bound();
SELECT fencing.bind('bind/job-1', :valid) \gset
SELECT resource, token = :valid AS valid FROM fencing.bound();
COMMIT;

-- PREPARE TRANSACTION seals. (Needs max_prepared_transactions above 0.)
BEGIN;
SELECT fencing.bind('bind/job-1', :valid) \gset
SELECT fencing.bind('bind/elsewhere', 60) \gset
UPDATE task SET state = 'prepared' WHERE id = 1;
PREPARE TRANSACTION 'regress_fencing_bind';
SELECT count(*) FROM fencing.bound();
-- Prepared, it holds up every grant: no row in bounded time, also with steal. So does the raise: 55P03.
SELECT count(*) FROM fencing.acquire('bind/job-1', steal => 'always');
SET lock_timeout = '100 ms';
SELECT fencing.advance('bind/elsewhere', 61);
RESET lock_timeout;
-- Not so the valid holder's other transactions.
UPDATE task SET state = 'other' FROM fencing.bind('bind/job-1', :valid) WHERE id = 11;
SELECT token FROM fencing.lookup('bind/elsewhere');
COMMIT PREPARED 'regress_fencing_bind';
SELECT state FROM task WHERE id = 1;
SELECT token FROM fencing.lookup('bind/elsewhere');
BEGIN;
SELECT fencing.bind('bind/job-1', :valid) \gset
SELECT fencing.bind('bind/elsewhere', 61) \gset
UPDATE task SET state = 'never' WHERE id = 1;
PREPARE TRANSACTION 'regress_fencing_bind';
ROLLBACK PREPARED 'regress_fencing_bind';
SELECT state FROM task WHERE id = 1;
SELECT token FROM fencing.lookup('bind/elsewhere');
SELECT count(*) FROM fencing.acquire('bind/job-1', steal => 'always');

-- fencing.enforcement reaches a binding: observed, a stale one warns and binds nothing, and one that has become stale
-- warns at COMMIT, which stands; off, nothing is bound. What the setting was when the binding was made counts.
SELECT token AS stale FROM fencing.acquire('bind/job-2', '1 hour', 'w1', steal => 'always') \gset
SELECT token AS valid FROM fencing.acquire('bind/job-2', '1 hour', 'w2', steal => 'always') \gset
SET fencing.enforcement = observe;
BEGIN;
SELECT fencing.bind('bind/job-2', :stale) = :stale AS returned;
SELECT count(*) FROM fencing.bound();
SELECT fencing.bind('bind/job-2', :valid) = :valid AS bound;
SELECT token AS valid FROM fencing.acquire('bind/job-2', '1 hour', 'w3', steal => 'always') \gset
INSERT INTO unguarded VALUES (2);
COMMIT;
SELECT * FROM unguarded;
SET fencing.enforcement = off;
BEGIN;
SELECT fencing.bind('bind/job-2', :stale) = :stale AS returned;
SELECT count(*) FROM fencing.bound();
COMMIT;
RESET fencing.enforcement;
BEGIN;
SELECT fencing.bind('bind/job-2', :valid) = :valid AS bound;
SET LOCAL fencing.enforcement = off;
SELECT count(*) FROM fencing.acquire('bind/job-2', '1 hour', 'w4', steal => 'always');
COMMIT;
-- The superuser empties the table in the transaction that is bound: nothing is known of the resource any more.
BEGIN;
SELECT fencing.bind('bind/job-2', :valid) = :valid AS bound;
TRUNCATE fencing.fence;
COMMIT;
SELECT token = :valid AS stands FROM fencing.lookup('bind/job-2');

SELECT count(fencing.forget('bind/' || name)) FROM unnest('{job-1,job-2,elsewhere}'::text[]) AS name;
SET client_min_messages = warning;
DROP SCHEMA test_bind CASCADE;
DROP ROLE regress_fencing_worker;
