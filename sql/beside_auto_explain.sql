-- Another library that watches the end of statements and came first: both do their work.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
\c
\set VERBOSITY terse
LOAD 'auto_explain';
SET auto_explain.log_min_duration = 0;
SELECT token AS t FROM fencing.acquire('beside/job', '1 hour') \gset
CREATE TABLE beside_job (id int PRIMARY KEY, fence_token bigint);
SELECT fencing.protect('beside_job', 'fence_token', 'beside/job');
INSERT INTO beside_job VALUES (1, :t), (2, :t);
-- The early check of one statement is not that of the next.
UPDATE beside_job SET fence_token = :t + 1;
\echo :LAST_ERROR_SQLSTATE
BEGIN;
UPDATE beside_job SET fence_token = :t;
SELECT token > :t AS taken_over FROM fencing.acquire('beside/job', steal => 'always');
UPDATE beside_job SET fence_token = :t;
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
DROP TABLE beside_job;
