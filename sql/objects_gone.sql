-- What a superuser can take away from under the extension: each function says what it misses, and does nothing.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
\set VERBOSITY terse
CREATE TABLE gone_job (id int, fence_token bigint);
SELECT token AS t FROM fencing.acquire('gone/job') \gset

-- The sequence.
BEGIN;
ALTER EXTENSION fencing DROP SEQUENCE fencing.token_seq;
DROP SEQUENCE fencing.token_seq;
SELECT fencing.next_token();
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;

-- The table. (It and the trigger function can be dropped only with the views that read them.)
BEGIN;
ALTER EXTENSION fencing DROP TABLE fencing.fence;
ALTER TABLE fencing.fence SET SCHEMA public;
SELECT fencing.bind('gone/job', :t);
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;

-- A table that is not the one that this library was built for.
BEGIN;
ALTER TABLE fencing.fence ADD COLUMN more int;
SELECT fencing.lookup('gone/job');
ROLLBACK;

-- The trigger function.
BEGIN;
ALTER EXTENSION fencing DROP FUNCTION fencing.guard();
ALTER FUNCTION fencing.guard() SET SCHEMA public;
SELECT fencing.protect('gone_job', 'fence_token');
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;

-- All of it is there again.
SELECT fencing.protect('gone_job', 'fence_token', 'gone/job');
SELECT fencing.bind('gone/job', :t) = :t AS bound;
SELECT fencing.release('gone/job', :t);
DROP TABLE gone_job;
