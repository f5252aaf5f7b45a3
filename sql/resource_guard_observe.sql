-- Observing the resource fence: what would be refused is a WARNING of the same kind, at the statement or at COMMIT,
-- and passes. By the trigger's mode or by the setting fencing.enforcement; the weaker of the two wins.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
CREATE SCHEMA test_resource_guard_observe;
SET search_path = test_resource_guard_observe;
\set SHOW_CONTEXT never
SELECT token AS stale FROM fencing.acquire('resource_guard_observe/1', '1 hour', 'w1') \gset
SELECT token AS valid FROM fencing.acquire('resource_guard_observe/1', '1 hour', 'w2', steal => 'always') \gset
SELECT :valid + 1000000 AS unissued \gset
CREATE TABLE task (id int PRIMARY KEY, job_id int, state text, token bigint);
CREATE FUNCTION word(token bigint, stale bigint, valid bigint, unissued bigint) RETURNS text LANGUAGE sql AS
    $$SELECT CASE token WHEN stale THEN 'stale' WHEN valid THEN 'valid' WHEN unissued THEN 'unissued' ELSE token::text END$$;
SELECT fencing.protect('task', 'token', 'resource_guard_observe/{job_id}', mode => 'observe');

-- What is in order is silent.
INSERT INTO task VALUES (1, 1, 'valid', :valid), (2, 1, 'valid', :valid);
UPDATE task SET state = 'still valid', token = :valid WHERE id = 1;
BEGIN;
SELECT fencing.bind('resource_guard_observe/1', :valid) \gset
UPDATE task SET state = 'bound' WHERE id = 1;
COMMIT;
-- Stale, by the fence and by the row: the presented token is written, even a lower one. (A warning for each.)
\set VERBOSITY terse
UPDATE task SET state = 'stale', token = :stale WHERE id = 1 RETURNING state, word(token, :stale, :valid, :unissued);
-- Stale by the fence only, never issued, unknown, missing.
UPDATE task SET state = 'stale', token = :stale WHERE id = 1 RETURNING state, word(token, :stale, :valid, :unissued);
UPDATE task SET state = 'unissued', token = :unissued WHERE id = 1 RETURNING state, word(token, :stale, :valid, :unissued);
INSERT INTO task VALUES (3, 99, 'unknown', :valid) RETURNING state, word(token, :stale, :valid, :unissued);
UPDATE task SET state = 'missing' WHERE id = 2 RETURNING state, word(token, :stale, :valid, :unissued);
INSERT INTO task VALUES (4, 1, 'missing') RETURNING state, word(token, :stale, :valid, :unissued);
\set VERBOSITY sqlstate
BEGIN;
SET LOCAL fencing.token = :stale;
UPDATE task SET state = 'stale' WHERE id = 4 RETURNING state, word(token, :stale, :valid, :unissued);
DELETE FROM task WHERE id = 4;
COMMIT;
DELETE FROM task WHERE id = 3;
-- One of the other issuer.
SELECT fencing.advance('resource_guard_observe/elsewhere', 33);
CREATE TABLE mixed (name text);
SELECT fencing.protect('mixed', resource => 'resource_guard_observe/{name}', mode => 'observe');
BEGIN;
SET LOCAL fencing.token = 33;
INSERT INTO mixed VALUES ('elsewhere');
COMMIT;
TRUNCATE mixed;
-- What is wrong with the guard or the row itself stays an error: nobody could say what it is about.
INSERT INTO task VALUES (5, NULL, 'no resource', :valid);

-- At COMMIT: written before the fence was raised. A WARNING, and the commit stands.
BEGIN;
UPDATE task SET state = 'before', token = :valid WHERE id = 2;
SELECT token AS next FROM fencing.acquire('resource_guard_observe/1', '1 hour', 'w3', steal => 'always') \gset
\set VERBOSITY terse
COMMIT;
\set VERBOSITY sqlstate
SELECT state, word(token, :stale, :valid, :unissued) FROM task WHERE id = 2;
SELECT token = :next AS next FROM fencing.lookup('resource_guard_observe/1');
SELECT :next AS valid \gset
-- What an observing guard has let through does not make an enforcing one refuse: 33 is only warned about.
CREATE TABLE observed (id int, token bigint);
CREATE TABLE enforced (id int, token bigint);
SELECT fencing.protect('observed', 'token', 'resource_guard_observe/both', issuer => 'external', mode => 'observe');
SELECT fencing.protect('enforced', 'token', 'resource_guard_observe/both', issuer => 'external');
BEGIN;
INSERT INTO observed VALUES (1, 33);
INSERT INTO enforced VALUES (1, 34);
COMMIT;
SELECT token FROM fencing.lookup('resource_guard_observe/both');
BEGIN;
INSERT INTO observed VALUES (2, 34);
SELECT fencing.advance('resource_guard_observe/both', 35);
INSERT INTO enforced VALUES (2, 35);
\set VERBOSITY terse
COMMIT;
-- What is stale in observe mode does not keep the fence from the enforced token, which is higher.
BEGIN;
INSERT INTO observed VALUES (4, 35);
INSERT INTO enforced VALUES (4, 39);
SELECT fencing.advance('resource_guard_observe/both', 36);
COMMIT;
SELECT token FROM fencing.lookup('resource_guard_observe/both');
-- READ ONLY by then: what is only observed raises nothing, and is no error.
BEGIN;
INSERT INTO observed VALUES (5, 40);
SET TRANSACTION READ ONLY;
COMMIT;
SELECT token FROM fencing.lookup('resource_guard_observe/both');
-- The other way round it is refused.
BEGIN;
INSERT INTO enforced VALUES (3, 39);
SELECT fencing.advance('resource_guard_observe/both', 41);
INSERT INTO observed VALUES (3, 41);
COMMIT;
\set VERBOSITY sqlstate
SELECT 'observed' AS name, * FROM observed UNION ALL SELECT 'enforced', * FROM enforced ORDER BY 1, 2;
SELECT fencing.forget('resource_guard_observe/both');
-- From elsewhere.
CREATE TABLE outside (id int PRIMARY KEY, token bigint);
SELECT fencing.protect('outside', 'token', 'resource_guard_observe/outside', issuer => 'external', mode => 'observe');
INSERT INTO outside VALUES (1, 33);
INSERT INTO outside VALUES (2, 34);
SELECT token FROM fencing.lookup('resource_guard_observe/outside');
UPDATE outside SET token = 33 WHERE id = 2 RETURNING *;
BEGIN;
UPDATE outside SET token = 35 WHERE id = 1;
SELECT fencing.advance('resource_guard_observe/outside', 36);
\set VERBOSITY default
COMMIT;
\set VERBOSITY sqlstate
SELECT * FROM outside ORDER BY id;
SELECT token FROM fencing.lookup('resource_guard_observe/outside');
-- Prepared: the same.
BEGIN;
UPDATE outside SET token = 36 WHERE id = 1;
PREPARE TRANSACTION 'regress_fencing_observe';
COMMIT PREPARED 'regress_fencing_observe';

-- Who enforces what in one transaction: the guard of another table enforces, and so does a binding.
CREATE TABLE strict (id int PRIMARY KEY, token bigint);
SELECT fencing.protect('strict', 'token', 'resource_guard_observe/outside', issuer => 'external');
BEGIN;
UPDATE outside SET token = 37 WHERE id = 1;
INSERT INTO strict VALUES (1, 37);
SELECT fencing.advance('resource_guard_observe/outside', 38);
COMMIT;
SELECT count(*) FROM strict;
BEGIN;
SELECT fencing.bind('resource_guard_observe/outside', 37);
UPDATE outside SET id = id WHERE id = 1;
SELECT fencing.advance('resource_guard_observe/outside', 38);
COMMIT;
-- The strict one was rolled back: the observing one is left.
BEGIN;
UPDATE outside SET token = 37 WHERE id = 1;
SAVEPOINT here;
INSERT INTO strict VALUES (1, 37);
ROLLBACK TO here;
SELECT fencing.advance('resource_guard_observe/outside', 38);
COMMIT;
SELECT * FROM outside ORDER BY id;

-- The setting: the same for guards that enforce.
SET fencing.enforcement = observe;
INSERT INTO strict VALUES (2, 37) RETURNING *;
INSERT INTO strict VALUES (3, NULL) RETURNING *;
BEGIN;
INSERT INTO strict VALUES (4, 39);
SELECT fencing.advance('resource_guard_observe/outside', 40);
COMMIT;
SELECT * FROM strict ORDER BY id;
RESET fencing.enforcement;
INSERT INTO strict VALUES (5, 37);
-- off does nothing: no look at any fence, no stamp, no raise.
SET fencing.enforcement = off;
BEGIN;
SET LOCAL fencing.token = 50;
INSERT INTO strict VALUES (5, 12) RETURNING *;
UPDATE strict SET token = NULL WHERE id = 4 RETURNING *;
DELETE FROM strict WHERE id = 4;
TRUNCATE strict;
COMMIT;
INSERT INTO task VALUES (5, NULL, 'no resource', :valid);
SELECT token FROM fencing.lookup('resource_guard_observe/outside');
RESET fencing.enforcement;

-- TRUNCATE.
SELECT fencing.protect('outside', 'token', 'resource_guard_observe/outside', issuer => 'external', mode => 'observe');
\set VERBOSITY terse
BEGIN;
SET LOCAL fencing.token = 12;
TRUNCATE outside;
ROLLBACK;
TRUNCATE outside;
SELECT count(*) FROM outside;

SELECT count(fencing.forget('resource_guard_observe/' || name)) FROM unnest('{1,elsewhere,outside}'::text[]) AS name;
DROP SCHEMA test_resource_guard_observe CASCADE;
