-- Tokens from elsewhere: the fence is raised by advance, or by the first sight of a greater token, which counts once
-- it is committed. (Unless an issuer says so, nobody knows which tokens there are.)
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
CREATE SCHEMA test_external_guard;
SET search_path = test_external_guard;
\set SHOW_CONTEXT never
CREATE TABLE task (id int PRIMARY KEY, job_id int, state text, token bigint);
SELECT fencing.protect('task', 'token', 'external_guard/{job_id}', issuer => 'external');
CREATE FUNCTION fence(job_id int) RETURNS bigint STABLE LANGUAGE sql AS
    'SELECT token FROM fencing.lookup(''external_guard/'' || $1)';

-- A resource that nobody has heard of takes any token, and has a fence once the write is committed: not before.
BEGIN;
INSERT INTO task VALUES (1, 1, 'new', 33);
SELECT fence(1);
COMMIT;
SELECT fence(1);
SELECT * FROM fencing.lookup('external_guard/1');
-- Equal passes.
UPDATE task SET state = 'equal', token = 33 WHERE id = 1;
SELECT fence(1);
-- Lower is stale.
\set VERBOSITY default
UPDATE task SET state = 'stale', token = 32 WHERE id = 1;
\echo :LAST_ERROR_SQLSTATE
INSERT INTO task VALUES (2, 1, 'stale', 32);
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
INSERT INTO task VALUES (2, 1, 'missing', NULL);
INSERT INTO task VALUES (2, 1, 'missing', 0);
INSERT INTO task VALUES (2, 1, 'invalid', -1);
-- Greater raises.
UPDATE task SET state = 'greater', token = 35 WHERE id = 1;
SELECT fence(1);
-- The greatest number there is, too.
INSERT INTO task VALUES (3, 2, 'greatest', 9223372036854775807);
SELECT fence(2);
UPDATE task SET state = 'stale', token = 35 WHERE id = 3;
SELECT fencing.forget('external_guard/2');

-- Rolled back, it raises nothing: neither the whole transaction nor a savepoint.
BEGIN;
UPDATE task SET state = 'rolled back', token = 40 WHERE id = 1;
ROLLBACK;
SELECT fence(1);
BEGIN;
SAVEPOINT here;
UPDATE task SET state = 'rolled back', token = 40 WHERE id = 1;
ROLLBACK TO here;
COMMIT;
SELECT fence(1);
BEGIN;
SAVEPOINT here;
UPDATE task SET state = 'rolled back', token = 40 WHERE id = 1;
ROLLBACK TO here;
UPDATE task SET state = '36', token = 36 WHERE id = 1;
COMMIT;
SELECT fence(1);
-- A statement that fails after its guard has passed raises nothing either.
INSERT INTO task VALUES (1, 1, 'duplicate', 40);
SELECT fence(1);

-- Within one transaction a token lower than one that it has seen itself is stale, before anybody else has seen either.
BEGIN;
INSERT INTO task VALUES (4, 1, 'greater', 38);
SELECT fence(1);
SAVEPOINT here;
\set VERBOSITY default
INSERT INTO task VALUES (5, 1, 'lower', 37);
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
ROLLBACK TO here;
INSERT INTO task VALUES (5, 1, 'lower', 38);
COMMIT;
SELECT fence(1);
-- The other way round each is news when it comes.
BEGIN;
INSERT INTO task VALUES (6, 1, 'lower', 39);
INSERT INTO task VALUES (7, 1, 'greater', 40);
COMMIT;
SELECT fence(1);
-- In one statement as well.
INSERT INTO task VALUES (8, 1, 'lower', 41), (9, 1, 'greater', 42);
INSERT INTO task VALUES (10, 1, 'greater', 44), (11, 1, 'lower', 43);
SELECT fence(1);
-- A resource that is new to everybody.
BEGIN;
INSERT INTO task VALUES (10, 3, 'greater', 44);
SAVEPOINT here;
INSERT INTO task VALUES (11, 3, 'lower', 43);
ROLLBACK TO here;
ROLLBACK;
SELECT fence(3);
-- The greater one was in a savepoint that is gone: nobody has seen it.
BEGIN;
INSERT INTO task VALUES (10, 3, 'lower', 33);
SAVEPOINT here;
INSERT INTO task VALUES (11, 3, 'greater', 34);
ROLLBACK TO here;
INSERT INTO task VALUES (12, 3, 'lower', 33);
COMMIT;
SELECT fence(3);
SELECT id, state, token FROM task WHERE job_id = 3 ORDER BY id;
-- It is kept, and counts.
BEGIN;
INSERT INTO task VALUES (13, 3, 'lower', 34);
SAVEPOINT here;
INSERT INTO task VALUES (14, 3, 'greater', 35);
RELEASE here;
SAVEPOINT here;
INSERT INTO task VALUES (15, 3, 'lower', 34);
ROLLBACK TO here;
COMMIT;
SELECT fence(3);

-- By the setting and by a binding.
BEGIN;
SET LOCAL fencing.token = 50;
INSERT INTO task VALUES (20, 1, 'setting') RETURNING token;
INSERT INTO task VALUES (21, 4, 'setting') RETURNING token;
DELETE FROM task WHERE id = 1;
COMMIT;
SELECT fence(1), fence(4);
BEGIN;
SELECT fencing.bind('external_guard/1', 51);
INSERT INTO task VALUES (22, 1, 'bound') RETURNING token;
SELECT fence(1);
COMMIT;
SELECT fence(1);
-- A lower setting, a greater binding: the binding counts for its resource.
BEGIN;
SELECT fencing.bind('external_guard/1', 52);
SET LOCAL fencing.token = 50;
INSERT INTO task VALUES (23, 1, 'bound'), (24, 4, 'setting') RETURNING token;
COMMIT;
SELECT fence(1), fence(4);
BEGIN;
SET LOCAL fencing.token = 49;
DELETE FROM task WHERE id = 24;
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = 53;
COPY task (id, job_id, state) FROM stdin;
25	1	copied
26	5	copied
\.
COMMIT;
SELECT fence(1), fence(5);
-- COPY names the column.
COPY task FROM stdin;
27	5	copied	54
\.
COPY task FROM stdin;
28	5	stale	53
\.
SELECT fence(5);

-- One number may be valid for both resources of a move: the fences of both are raised.
UPDATE task SET job_id = 6, token = 60 WHERE id = 27;
SELECT fence(5), fence(6);
UPDATE task SET job_id = 5, token = 59 WHERE id = 27;
UPDATE task SET job_id = 5 WHERE id = 27;
-- The row's own token must not fall (I4), though it is news to the other resource.
\set VERBOSITY default
BEGIN;
SELECT fencing.bind('external_guard/6', 60);
UPDATE task SET job_id = 7, token = 59 WHERE id = 27;
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
\set VERBOSITY sqlstate
BEGIN;
SELECT fencing.bind('external_guard/6', 60);
UPDATE task SET job_id = 7, token = 61 WHERE id = 27;
COMMIT;
SELECT fence(6), fence(7);

-- For an upsert the attempt counts: it is sealed and raises the fence, also when nothing is written.
INSERT INTO task VALUES (27, 7, 'attempt', 62) ON CONFLICT DO NOTHING;
SELECT fence(7);
INSERT INTO task VALUES (27, 7, 'attempt', 63) ON CONFLICT (id) DO UPDATE SET state = 'never', token = excluded.token WHERE false;
SELECT fence(7);
INSERT INTO task VALUES (27, 7, 'attempt', 62) ON CONFLICT DO NOTHING;
INSERT INTO task VALUES (27, 7, 'attempt', 64) ON CONFLICT (id) DO UPDATE SET state = 'upsert', token = excluded.token;
SELECT fence(7);

-- advance, before the first write of a new holder.
SELECT fencing.advance('external_guard/7', 70);
UPDATE task SET state = 'stale', token = 69 WHERE id = 27;
UPDATE task SET state = 'equal', token = 70 WHERE id = 27;
SELECT fencing.advance('external_guard/7', 69);
-- In one transaction: what was written before with a lower token does not commit.
BEGIN;
UPDATE task SET state = 'before', token = 71 WHERE id = 27;
SELECT fencing.advance('external_guard/7', 72);
\set VERBOSITY default
COMMIT;
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
SELECT fence(7);
SELECT state, token FROM task WHERE id = 27;
-- To what it has written itself, or to less, it may advance: it keeps the greater of both.
BEGIN;
UPDATE task SET state = 'before', token = 71 WHERE id = 27;
SELECT fencing.advance('external_guard/7', 71);
COMMIT;
SELECT fence(7);
BEGIN;
UPDATE task SET state = 'greater', token = 73 WHERE id = 27;
SELECT fencing.advance('external_guard/7', 72);
COMMIT;
SELECT fence(7);

-- A row that was there before the guard, with a token that the fence has not seen: it is the row that refuses.
CREATE TABLE old (id int PRIMARY KEY, token bigint);
INSERT INTO old VALUES (1, 80), (2, NULL);
SELECT fencing.protect('old', 'token', 'external_guard/old', issuer => 'external');
UPDATE old SET token = 33 WHERE id = 2;
SELECT token FROM fencing.lookup('external_guard/old');
\set VERBOSITY terse
UPDATE old SET token = 34 WHERE id = 1;
\set VERBOSITY sqlstate
SELECT token FROM fencing.lookup('external_guard/old');
UPDATE old SET token = 80 WHERE id = 1;
SELECT token FROM fencing.lookup('external_guard/old');

-- The small types, for issuers with small numbers; a greater token does not fit, and raises nothing.
CREATE TABLE small (id int PRIMARY KEY, token smallint);
CREATE TABLE whole (id int PRIMARY KEY, token int);
SELECT fencing.protect('small', 'token', 'external_guard/small', issuer => 'external');
SELECT fencing.protect('whole', 'token', 'external_guard/whole', issuer => 'external');
INSERT INTO small VALUES (1, 33);
INSERT INTO whole VALUES (1, 33);
INSERT INTO small VALUES (2, 32);
INSERT INTO whole VALUES (2, 32);
BEGIN;
SET LOCAL fencing.token = 32767;
UPDATE small SET id = id RETURNING token;
SET LOCAL fencing.token = 2147483647;
UPDATE whole SET id = id RETURNING token;
COMMIT;
\set VERBOSITY default
BEGIN;
SET LOCAL fencing.token = 32768;
UPDATE small SET id = id;
ROLLBACK;
\set VERBOSITY sqlstate
BEGIN;
SET LOCAL fencing.token = 2147483648;
UPDATE whole SET id = id;
ROLLBACK;
SELECT token FROM fencing.lookup('external_guard/small') UNION ALL SELECT token FROM fencing.lookup('external_guard/whole');

-- No column at all: the fence of the resource is all there is.
CREATE TABLE bare (id int PRIMARY KEY, job_id int);
SELECT fencing.protect('bare', resource => 'external_guard/{job_id}', issuer => 'external');
BEGIN;
SET LOCAL fencing.token = 90;
INSERT INTO bare VALUES (1, 8), (2, 9);
COMMIT;
SELECT fence(8), fence(9);
BEGIN;
SET LOCAL fencing.token = 89;
DELETE FROM bare WHERE id = 1;
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = 91;
DELETE FROM bare WHERE id = 1;
COMMIT;
SELECT fence(8), fence(9);
-- What the row fence does not know: the row is gone, its resource is not.
BEGIN;
SET LOCAL fencing.token = 90;
INSERT INTO bare VALUES (1, 8);
ROLLBACK;

-- TRUNCATE raises as well, where the table is one resource.
CREATE TABLE one (id int);
SELECT fencing.protect('one', resource => 'external_guard/one', issuer => 'external');
TRUNCATE one;
BEGIN;
SET LOCAL fencing.token = 33;
TRUNCATE one;
COMMIT;
SELECT token FROM fencing.lookup('external_guard/one');
BEGIN;
SET LOCAL fencing.token = 32;
TRUNCATE one;
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = 34;
TRUNCATE one;
ROLLBACK;
SELECT token FROM fencing.lookup('external_guard/one');

-- A raise changes the extension's table with the extension's rights: whoever writes here has none of his own.
CREATE ROLE regress_fencing_writer;
GRANT USAGE ON SCHEMA test_external_guard TO regress_fencing_writer;
GRANT INSERT, SELECT ON task TO regress_fencing_writer;
SET SESSION AUTHORIZATION regress_fencing_writer;
INSERT INTO task VALUES (30, 10, 'writer', 33);
INSERT INTO task VALUES (31, 10, 'writer', 34);
INSERT INTO task VALUES (32, 10, 'writer', 33);
SELECT count(*) FROM fencing.fence;
RESET SESSION AUTHORIZATION;
SELECT fence(10);
-- A bogus token has come in: the installer forgets the resource, and it begins anew.
INSERT INTO task VALUES (33, 10, 'bogus', 9223372036854775807);
INSERT INTO task VALUES (34, 10, 'refused', 35);
SELECT fencing.forget('external_guard/10');
INSERT INTO task VALUES (34, 10, 'repaired', 35);
SELECT fence(10);

-- Switched to READ ONLY, a transaction cannot raise what it has seen before.
BEGIN;
INSERT INTO task VALUES (40, 10, 'read only', 36);
SET TRANSACTION READ ONLY;
\set VERBOSITY default
COMMIT;
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
BEGIN;
INSERT INTO task VALUES (40, 10, 'read only', 35);
SET TRANSACTION READ ONLY;
COMMIT;
SELECT fence(10);

-- Two guards of different issuers on one resource: within a transaction it has one issuer as well, also after a prune
-- and a savepoint that is rolled back.
CREATE TABLE issued_here (name text, token bigint);
SELECT fencing.protect('issued_here', 'token', 'external_guard/{name}');
CREATE TABLE elsewhere (name text, token bigint);
SELECT fencing.protect('elsewhere', 'token', 'external_guard/{name}', issuer => 'external');
SELECT token AS here FROM fencing.acquire('external_guard/both', '1 hour') \gset
BEGIN;
INSERT INTO issued_here VALUES ('both', :here);
SELECT fencing.forget('external_guard/both');
SAVEPOINT s;
INSERT INTO elsewhere VALUES ('both', 3);
ROLLBACK TO s;
COMMIT;
BEGIN;
INSERT INTO elsewhere VALUES ('late', 5);
SELECT token AS here FROM fencing.acquire('external_guard/late', '1 hour') \gset
SAVEPOINT s;
INSERT INTO issued_here VALUES ('late', :here);
ROLLBACK TO s;
SELECT fencing.bind('external_guard/late', :here);
ROLLBACK TO s;
COMMIT;
SELECT (SELECT count(*) FROM issued_here) AS issued_here, (SELECT count(*) FROM elsewhere) AS elsewhere;
SELECT resource, holder, expires_at IS NOT NULL AS leased FROM fencing.lookup('external_guard/both');

SELECT count(fencing.forget(name)) FROM unnest('{both,1,3,4,5,6,7,8,9,10,old,small,whole,one}'::text[]) AS n, concat('external_guard/', n) AS name;
SET client_min_messages = warning;
DROP SCHEMA test_external_guard CASCADE;
DROP ROLE regress_fencing_writer;
