-- One transaction over more resources than a transaction has locks: it seals whole buckets of them, and means the same.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
CREATE SCHEMA test_seal_many;
SET search_path = test_seal_many;
-- (A transaction that is prepared though it must not be would hold up what follows.)
SET statement_timeout = '1 min';
\set SHOW_CONTEXT never
CREATE TABLE task (id int PRIMARY KEY, state text, token bigint);
SELECT fencing.protect('task', 'token', 'seal_many/{id}', issuer => 'external');

-- 3,000 fences are raised by sight, then found as they are, then raised again.
INSERT INTO task SELECT n, 'new', 33 FROM generate_series(1, 3000) AS n;
CREATE VIEW fences AS SELECT token, count(*) FROM generate_series(1, 3000) AS n, fencing.lookup('seal_many/' || n) GROUP BY token ORDER BY token;
SELECT * FROM fences;
UPDATE task SET state = 'equal', token = 33;
SELECT * FROM fences;
BEGIN;
UPDATE task SET state = 'greater', token = CASE WHEN id % 2 = 0 THEN 34 ELSE 33 END;
SELECT * FROM fences;
COMMIT;
SELECT * FROM fences;
-- One that is stale, at the statement and at COMMIT, and nothing is changed (I8).
UPDATE task SET state = 'stale', token = CASE WHEN id = 2998 THEN 33 ELSE 34 END;
\echo :LAST_ERROR_SQLSTATE
BEGIN;
UPDATE task SET state = 'stale', token = 34;
SELECT fencing.advance('seal_many/2999', 35);
COMMIT;
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM fences;
SELECT count(*) FROM task WHERE state = 'greater';
-- Rolled back with a savepoint, they do not count, and the transaction is an ordinary one.
BEGIN;
UPDATE task SET state = 'kept', token = 35 WHERE id = 1;
SAVEPOINT here;
UPDATE task SET state = 'gone', token = 35;
ROLLBACK TO here;
SELECT fencing.advance('seal_many/2', 36);
COMMIT;
SELECT * FROM fences;
-- Bound to all of them.
BEGIN;
SELECT count(fencing.bind('seal_many/' || n, 40)), min(n) FROM generate_series(1, 3000) AS n;
SELECT count(*) FROM fencing.bound();
UPDATE task SET state = 'bound';
COMMIT;
SELECT * FROM fences;
SELECT token, count(*) FROM task GROUP BY token;

-- It cannot be prepared: that would hold up every grant of the database. Fewer can.
\set VERBOSITY terse
BEGIN;
UPDATE task SET state = 'prepared', token = 40;
PREPARE TRANSACTION 'regress_fencing_many';
\echo :LAST_ERROR_SQLSTATE
BEGIN;
UPDATE task SET state = 'prepared', token = 40 WHERE id <= 30;
PREPARE TRANSACTION 'regress_fencing_many';
COMMIT PREPARED 'regress_fencing_many';
SELECT state, count(*) FROM task GROUP BY state ORDER BY state;

-- Issued here.
CREATE TABLE issued (id int PRIMARY KEY, state text);
INSERT INTO issued SELECT n, 'new' FROM generate_series(1, 100) AS n;
SELECT fencing.protect('issued', resource => 'seal_many/issued-{id}');
CREATE TABLE held AS SELECT id, token FROM issued, fencing.acquire('seal_many/issued-' || id);
BEGIN;
SELECT count(fencing.bind('seal_many/issued-' || id, token)) FROM held;
UPDATE issued SET state = 'bound';
COMMIT;
BEGIN;
SELECT count(fencing.bind('seal_many/issued-' || id, token)) FROM held;
UPDATE issued SET state = 'stale';
SELECT count(*) FROM fencing.acquire('seal_many/issued-77', steal => 'always');
COMMIT;
\echo :LAST_ERROR_SQLSTATE
SELECT state, count(*) FROM issued GROUP BY state;

DELETE FROM fencing.fence WHERE resource LIKE 'seal\_many/%';
SET client_min_messages = warning;
DROP SCHEMA test_seal_many CASCADE;
