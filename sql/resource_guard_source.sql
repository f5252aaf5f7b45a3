-- source => 'transaction' with a resource: only a binding and the setting count; the token column is stamped, whatever
-- the statement writes into it.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
CREATE SCHEMA test_resource_guard_source;
SET search_path = test_resource_guard_source;
\set SHOW_CONTEXT never
SELECT token AS stale FROM fencing.acquire('resource_guard_source/1', '1 hour', 'w1') \gset
SELECT token AS valid FROM fencing.acquire('resource_guard_source/1', '1 hour', 'w2', steal => 'always') \gset
SELECT token AS other FROM fencing.acquire('resource_guard_source/2', '1 hour', 'w3') \gset
CREATE TABLE task (id int PRIMARY KEY, job_id int, state text, token bigint);
SELECT fencing.protect('task', 'token', 'resource_guard_source/{job_id}', source => 'transaction');
CREATE FUNCTION word(token bigint, valid bigint, other bigint) RETURNS text LANGUAGE sql AS
    $$SELECT CASE token WHEN valid THEN 'valid' WHEN other THEN 'other' ELSE token::text END$$;

-- The column alone carries nothing, also with the current token.
\set VERBOSITY default
INSERT INTO task VALUES (1, 1, 'column', :valid);
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
-- The binding or the setting does; what the program writes into the column is overwritten: the token it has read long
-- ago, one from nowhere, none, not even a token.
BEGIN;
SELECT fencing.bind('resource_guard_source/1', :valid) \gset
INSERT INTO task VALUES (1, 1, 'bound', :stale), (2, 1, 'bound', NULL), (3, 1, 'bound', -1), (4, 1, 'bound', 99999);
COMMIT;
BEGIN;
SET LOCAL fencing.token = :valid;
INSERT INTO task VALUES (5, 1, 'setting', :other);
UPDATE task SET state = 'setting', token = :stale WHERE id = 1;
UPDATE task SET id = id, job_id = job_id, state = state, token = token WHERE id = 2;
COMMIT;
SELECT id, job_id, state, word(token, :valid, :other) FROM task ORDER BY id;
UPDATE task SET state = 'column', token = :valid WHERE id = 1;
UPDATE task SET state = 'column', token = token WHERE id = 1;
DELETE FROM task WHERE id = 1;
-- Stale is stale, and the column does not save it.
BEGIN;
SET LOCAL fencing.token = :stale;
UPDATE task SET state = 'stale', token = :valid WHERE id = 1;
ROLLBACK;
-- A row that moves carries the token of where it goes.
BEGIN;
SELECT fencing.bind('resource_guard_source/1', :valid) \gset
UPDATE task SET job_id = 2, token = :other WHERE id = 1;
ROLLBACK;
BEGIN;
SELECT fencing.bind('resource_guard_source/1', :valid) \gset
SELECT fencing.bind('resource_guard_source/2', :other) \gset
UPDATE task SET job_id = 2, token = 7 WHERE id = 1 RETURNING id, job_id, word(token, :valid, :other);
COMMIT;
-- COPY and the upsert of an ORM that writes all columns.
BEGIN;
SELECT fencing.bind('resource_guard_source/1', :valid) \gset
COPY task FROM stdin;
6	1	copied	12
7	1	copied	\N
\.
INSERT INTO task VALUES (6, 1, 'upsert', 12) ON CONFLICT (id) DO UPDATE SET
    id = excluded.id, job_id = excluded.job_id, state = excluded.state, token = excluded.token;
COMMIT;
COPY task FROM stdin;
8	1	copied	12
\.
SELECT id, job_id, state, word(token, :valid, :other) FROM task ORDER BY id;

-- From elsewhere: the column is not looked at, so it raises nothing.
CREATE TABLE outside (id int PRIMARY KEY, token bigint);
SELECT fencing.protect('outside', 'token', 'resource_guard_source/outside', issuer => 'external', source => 'transaction');
INSERT INTO outside VALUES (1, 99);
BEGIN;
SET LOCAL fencing.token = 33;
INSERT INTO outside VALUES (1, 99) RETURNING *;
COMMIT;
SELECT token FROM fencing.lookup('resource_guard_source/outside');
-- Allowed to carry none, the row keeps the token that it has.
SELECT fencing.protect('outside', 'token', 'resource_guard_source/outside', issuer => 'external', source => 'transaction', missing => 'allow');
UPDATE outside SET token = 99 RETURNING *;
UPDATE outside SET token = 12 RETURNING *;
INSERT INTO outside VALUES (2, 99) RETURNING *;
SELECT token FROM fencing.lookup('resource_guard_source/outside');
-- Made by hand it is the same.
CREATE TABLE hand (id int PRIMARY KEY, token bigint);
CREATE TRIGGER zz_fencing_guard BEFORE INSERT OR UPDATE OR DELETE ON hand FOR EACH ROW
    EXECUTE FUNCTION fencing.guard('source=transaction', 'token_column=token', 'resource=resource_guard_source/1');
INSERT INTO hand VALUES (1, :valid);
BEGIN;
SET LOCAL fencing.token = :valid;
INSERT INTO hand VALUES (1, 12) RETURNING word(token, :valid, :other);
COMMIT;
-- Without a column there is nothing to stamp, and nothing else changes.
CREATE TABLE bare (id int PRIMARY KEY);
SELECT fencing.protect('bare', resource => 'resource_guard_source/1', source => 'transaction');
INSERT INTO bare VALUES (1);
INSERT INTO bare SELECT 1 FROM fencing.bind('resource_guard_source/1', :valid);

SELECT fencing.forget('resource_guard_source/outside');
SET client_min_messages = warning;
DROP SCHEMA test_resource_guard_source CASCADE;
