-- Tokens: numbers that only grow, whatever becomes of the transaction (I1). In a database of its own,
-- because the sequence is mistreated here.
SELECT current_database() AS home \gset
CREATE DATABASE regress_fencing_token;
\c regress_fencing_token
CREATE EXTENSION fencing;

-- A new database begins at 1: 0 means "none".
SELECT fencing.next_token();
SELECT fencing.next_token();

-- ROLLBACK gives nothing back.
BEGIN;
SELECT fencing.next_token();
ROLLBACK;
SELECT fencing.next_token();

-- Nor does a savepoint that is rolled back.
BEGIN;
SAVEPOINT s;
SELECT fencing.next_token();
ROLLBACK TO s;
SELECT fencing.next_token();
COMMIT;
SELECT fencing.next_token();

-- Nor does an error that is caught.
DO $$
BEGIN
    PERFORM fencing.next_token();
    RAISE EXCEPTION 'lost';
EXCEPTION WHEN raise_exception THEN
    NULL;
END $$;
SELECT fencing.next_token();

-- Many in one statement, past what the sequence writes ahead: all different, each one step further.
SELECT count(DISTINCT token), max(token) - min(token) AS span
FROM (SELECT fencing.next_token() AS token FROM generate_series(1, 100)) AS drawn;
SELECT fencing.next_token();

-- A prepared statement draws each time.
PREPARE draw AS SELECT fencing.next_token();
EXECUTE draw;
EXECUTE draw;
DEALLOCATE draw;

-- At every isolation level.
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT fencing.next_token();
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT fencing.next_token();
COMMIT;

-- synchronous_commit makes no difference to the number.
SET synchronous_commit = off;
SELECT fencing.next_token();
RESET synchronous_commit;

-- A read-only transaction draws nothing.
\set VERBOSITY sqlstate
BEGIN READ ONLY;
SELECT fencing.next_token();
ROLLBACK;
BEGIN READ ONLY;
SELECT fencing.fast_forward(1000);
ROLLBACK;
\set VERBOSITY default

-- fast_forward: the next token is greater, and the value it will exceed comes back.
SELECT fencing.fast_forward(1000);
SELECT fencing.next_token();
-- Nothing is lowered: what comes back is the value reached already.
SELECT fencing.fast_forward(5);
SELECT fencing.fast_forward(0);
SELECT fencing.next_token();
-- Twice the same is once.
SELECT fencing.fast_forward(2000);
SELECT fencing.fast_forward(2000);
SELECT fencing.next_token();
-- To the value drawn last: the next one is the next one.
SELECT fencing.fast_forward(2001);
SELECT fencing.next_token();

-- It stands although the transaction is rolled back.
BEGIN;
SELECT fencing.fast_forward(3000);
ROLLBACK;
SELECT fencing.next_token();
BEGIN;
SAVEPOINT s;
SELECT fencing.fast_forward(4000);
ROLLBACK TO s;
SELECT fencing.next_token();
COMMIT;

-- The sequence may not have options that could issue a token twice; the HINT names the cure.
ALTER SEQUENCE fencing.token_seq CACHE 10;
SELECT fencing.next_token();
\echo :LAST_ERROR_SQLSTATE
SELECT fencing.fast_forward(5000);
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM fencing.acquire('token/a');
\echo :LAST_ERROR_SQLSTATE
ALTER SEQUENCE fencing.token_seq CACHE 1;
SELECT fencing.next_token();

ALTER SEQUENCE fencing.token_seq CYCLE;
SELECT fencing.next_token();
\echo :LAST_ERROR_SQLSTATE
ALTER SEQUENCE fencing.token_seq NO CYCLE;
SELECT fencing.next_token();

ALTER SEQUENCE fencing.token_seq INCREMENT BY -1;
SELECT fencing.next_token();
\echo :LAST_ERROR_SQLSTATE
ALTER SEQUENCE fencing.token_seq INCREMENT BY 1;
SELECT fencing.next_token() > 4003 AS greater;

ALTER SEQUENCE fencing.token_seq AS integer;
SELECT fencing.next_token();
\echo :LAST_ERROR_SQLSTATE
ALTER SEQUENCE fencing.token_seq AS bigint;
SELECT fencing.next_token() > 4004 AS greater;

ALTER SEQUENCE fencing.token_seq SET UNLOGGED;
SELECT fencing.next_token();
\echo :LAST_ERROR_SQLSTATE
ALTER SEQUENCE fencing.token_seq SET LOGGED;
SELECT fencing.next_token() > 4005 AS greater;
-- The record of the epoch, which only who enters an epoch writes.
ALTER SEQUENCE fencing.origin_seq SET UNLOGGED;
SELECT fencing.next_token() > 4005 AS greater;
SELECT fencing.fast_forward(1::bigint << 40);
\echo :LAST_ERROR_SQLSTATE
ALTER SEQUENCE fencing.origin_seq SET LOGGED;
BEGIN;
ALTER SEQUENCE fencing.origin_seq INCREMENT BY 1;
SELECT fencing.fast_forward(1::bigint << 40);
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;

-- Two faults at a time: cured one after the other.
ALTER SEQUENCE fencing.token_seq CACHE 5 CYCLE;
SELECT fencing.next_token();
ALTER SEQUENCE fencing.token_seq CACHE 1;
SELECT fencing.next_token();
ALTER SEQUENCE fencing.token_seq NO CYCLE;
SELECT fencing.next_token() > 4006 AS greater;

-- A wider step is safe.
SELECT fencing.fast_forward(6000);
ALTER SEQUENCE fencing.token_seq INCREMENT BY 10;
SELECT fencing.next_token() > 6000 AS greater;
ALTER SEQUENCE fencing.token_seq INCREMENT BY 1;

-- An ALTER that is not committed yet could be rolled back, and the old positions with it (I1).
BEGIN;
ALTER SEQUENCE fencing.token_seq RESTART WITH 100000;
SELECT fencing.next_token();
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
BEGIN;
ALTER SEQUENCE fencing.token_seq RESTART WITH 100000;
SELECT fencing.fast_forward(200000);
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
BEGIN;
ALTER SEQUENCE fencing.token_seq RESTART WITH 100000;
SELECT * FROM fencing.acquire('token/a');
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
-- Also when a savepoint made it and was released.
BEGIN;
SAVEPOINT s;
ALTER SEQUENCE fencing.token_seq RESTART WITH 100000;
RELEASE s;
SELECT fencing.next_token();
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
-- Once the savepoint is rolled back, the sequence is as it was.
BEGIN;
SAVEPOINT s;
ALTER SEQUENCE fencing.token_seq RESTART WITH 100000;
ROLLBACK TO s;
SELECT fencing.next_token() BETWEEN 6000 AND 99999 AS as_before;
COMMIT;

-- TRUNCATE ... RESTART IDENTITY rewrites a sequence that belongs to a column of the table.
CREATE TABLE fencing.planted (id bigint);
ALTER SEQUENCE fencing.token_seq OWNED BY fencing.planted.id;
BEGIN;
TRUNCATE fencing.planted RESTART IDENTITY;
SELECT fencing.next_token();
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
ALTER SEQUENCE fencing.token_seq OWNED BY NONE;
DROP TABLE fencing.planted;
SELECT fencing.next_token() BETWEEN 6000 AND 99999 AS as_before;

-- A sequence set back by a superuser heals at the next grant: a grant of the resource is greater than
-- its fence all the same (I2, I3).
SELECT token AS before FROM fencing.acquire('token/b') \gset
SELECT fencing.release('token/b', :before);
ALTER SEQUENCE fencing.token_seq RESTART WITH 1;
SELECT token > :before AS greater, token AS after FROM fencing.acquire('token/b') \gset
\echo :greater
SELECT fencing.next_token() > :after AS greater;

-- A superuser who gives the sequence numbers below 1 gets no token below 1.
ALTER SEQUENCE fencing.token_seq MINVALUE -5 RESTART WITH -5;
DO $$
DECLARE
    token bigint;
BEGIN
    token := fencing.next_token();
    IF token < 1 THEN
        RAISE EXCEPTION 'drawn: %', token;
    END IF;
EXCEPTION WHEN object_not_in_prerequisite_state THEN
    NULL;
END $$;
ALTER SEQUENCE fencing.token_seq MINVALUE 1 RESTART WITH 200000;
SELECT fencing.next_token();

-- The sequence has a maximum of its own: used up is an error of the server, never a wrap.
ALTER SEQUENCE fencing.token_seq MAXVALUE 200002;
SELECT fencing.next_token();
SELECT fencing.next_token();
SELECT fencing.next_token();
\echo :LAST_ERROR_SQLSTATE
ALTER SEQUENCE fencing.token_seq NO MAXVALUE;
SELECT fencing.next_token();

-- The end of bigint: one token is left, then no more, and leases that stand are still checked (I3).
SELECT token AS standing FROM fencing.acquire('token/c') \gset
SELECT fencing.fast_forward(9223372036854775805);
-- Past the end of an epoch, that has ended every lease; the last one of all can be renewed and released.
SELECT fencing.renew('token/c', :standing), fencing.release('token/c', :standing);
SELECT token AS standing FROM fencing.acquire('token/c') \gset
SELECT fencing.next_token();
SELECT fencing.next_token();
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM fencing.acquire('token/d');
\echo :LAST_ERROR_SQLSTATE
SELECT count(*) FROM fencing.lookup('token/d');
SELECT fencing.renew('token/c', :standing) IS NOT NULL AS renewed;
SELECT fencing.release('token/c', :standing);

\c :home
DROP DATABASE regress_fencing_token;
