-- Indirect ways to write a table with a resource fence: cascades, views, other triggers, rules, functions (I7).
-- (MERGE has a file of its own.)
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
CREATE SCHEMA test_resource_guard_paths;
SET search_path = test_resource_guard_paths;
\set SHOW_CONTEXT never
\set VERBOSITY sqlstate
SELECT token AS stale FROM fencing.acquire('resource_guard_paths/1', '1 hour', 'w1') \gset
SELECT token AS valid FROM fencing.acquire('resource_guard_paths/1', '1 hour', 'w2', steal => 'always') \gset
SELECT token AS other FROM fencing.acquire('resource_guard_paths/2', '1 hour', 'w3') \gset
SELECT fencing.advance('resource_guard_paths/outside', 33);

-- Foreign keys: their own statements name the key only; they carry a token by a binding or by the setting.
CREATE TABLE job (id int PRIMARY KEY);
CREATE TABLE task (id int PRIMARY KEY, job_id int REFERENCES job ON DELETE CASCADE ON UPDATE CASCADE, state text, token bigint);
CREATE TABLE note (id int PRIMARY KEY, job_id int REFERENCES job ON DELETE SET NULL ON UPDATE CASCADE, owner int);
INSERT INTO job VALUES (1), (2), (3);
INSERT INTO note VALUES (1, 1, 1);
SELECT fencing.protect('task', 'token', 'resource_guard_paths/{job_id}');
SELECT fencing.protect('note', resource => 'resource_guard_paths/{owner}');
INSERT INTO task VALUES (1, 1, 'new', :valid), (2, 1, 'new', :valid), (3, 2, 'new', :other);
DELETE FROM job WHERE id = 1;
UPDATE job SET id = 4 WHERE id = 1;
BEGIN;
SET LOCAL fencing.token = :stale;
DELETE FROM job WHERE id = 1;
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = :valid;
DELETE FROM job WHERE id = 1;
SELECT id, job_id FROM task ORDER BY id;
SELECT * FROM note;
ROLLBACK;
BEGIN;
SELECT fencing.bind('resource_guard_paths/1', :valid) \gset
DELETE FROM job WHERE id = 1;
SELECT id, job_id FROM task ORDER BY id;
SELECT * FROM note;
ROLLBACK;
-- The key is what the resource is made of: the cascade is a move, and wants a token for both.
BEGIN;
SELECT fencing.bind('resource_guard_paths/1', :valid) \gset
SAVEPOINT here;
UPDATE job SET id = 4 WHERE id = 1;
ROLLBACK TO here;
SELECT token AS fourth FROM fencing.acquire('resource_guard_paths/4') \gset
SELECT fencing.bind('resource_guard_paths/4', :fourth) \gset
UPDATE job SET id = 4 WHERE id = 1;
SELECT id, job_id, token = :fourth AS fourth FROM task ORDER BY id;
ROLLBACK;
-- A row that loses its resource by SET NULL is refused.
CREATE TABLE loose (job_id int REFERENCES job ON DELETE SET NULL);
INSERT INTO loose VALUES (3);
SELECT fencing.protect('loose', resource => 'resource_guard_paths/outside{job_id}', issuer => 'external');
BEGIN;
SET LOCAL fencing.token = 33;
DELETE FROM job WHERE id = 3;
ROLLBACK;
-- Deferred, it comes at COMMIT, and is sealed then.
ALTER TABLE task DROP CONSTRAINT task_job_id_fkey;
ALTER TABLE task ADD FOREIGN KEY (job_id) REFERENCES job ON DELETE CASCADE ON UPDATE CASCADE DEFERRABLE INITIALLY DEFERRED;
BEGIN;
SELECT fencing.bind('resource_guard_paths/1', :valid) \gset
DELETE FROM note;
DELETE FROM job WHERE id = 1;
SELECT token AS next FROM fencing.acquire('resource_guard_paths/1', steal => 'always') \gset
COMMIT;
SELECT id, job_id FROM task ORDER BY id;

-- Views write to the table underneath: a simple one, one with CHECK OPTION, one with an INSTEAD OF trigger, a rule.
CREATE VIEW simple AS SELECT id AS number, job_id AS job, state FROM task;
CREATE VIEW checked AS SELECT id, job_id, state FROM task WHERE job_id = 1 WITH CHECK OPTION;
UPDATE simple SET state = 'view' WHERE number = 1;
INSERT INTO simple VALUES (4, 1, 'view');
DELETE FROM simple WHERE number = 1;
BEGIN;
SELECT fencing.bind('resource_guard_paths/1', :valid) \gset
UPDATE simple SET state = 'view' WHERE number = 1 RETURNING *;
INSERT INTO simple VALUES (4, 1, 'view') RETURNING *;
INSERT INTO checked VALUES (5, 1, 'checked') RETURNING *;
DELETE FROM simple WHERE number = 4 RETURNING *;
SAVEPOINT here;
INSERT INTO checked VALUES (6, 2, 'checked');
ROLLBACK TO here;
UPDATE simple SET state = 'view';
ROLLBACK TO here;
COMMIT;
SELECT id, job_id, state, token = :valid AS valid FROM task WHERE job_id = 1 ORDER BY id;
CREATE VIEW instead AS SELECT id, state FROM task;
CREATE FUNCTION write_instead() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE test_resource_guard_paths.task SET state = new.state WHERE id = new.id;
    RETURN new;
END $$;
CREATE TRIGGER write_instead INSTEAD OF UPDATE ON instead FOR EACH ROW EXECUTE FUNCTION write_instead();
UPDATE instead SET state = 'instead' WHERE id = 1;
BEGIN;
SET LOCAL fencing.token = :valid;
UPDATE instead SET state = 'instead' WHERE id = 1 RETURNING *;
COMMIT;
CREATE TABLE ruled (id int, state text);
INSERT INTO ruled VALUES (1, 'old');
CREATE RULE also AS ON UPDATE TO ruled DO ALSO UPDATE task SET state = new.state WHERE id = new.id;
UPDATE ruled SET state = 'rule';
BEGIN;
SELECT fencing.bind('resource_guard_paths/1', :valid) \gset
UPDATE ruled SET state = 'rule';
COMMIT;
SELECT state FROM task WHERE id = 1;

-- Triggers that write other guarded tables, before and after, by row and by statement; they carry what the
-- transaction carries, not what the statement's column says.
CREATE TABLE history (id int, job_id int);
SELECT fencing.protect('history', resource => 'resource_guard_paths/{job_id}');
CREATE FUNCTION write_history() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF tg_level = 'ROW' THEN
        INSERT INTO test_resource_guard_paths.history VALUES (new.id, new.job_id);
    ELSE
        UPDATE test_resource_guard_paths.history SET id = -id WHERE job_id = 1;
    END IF;
    RETURN new;
END $$;
CREATE TRIGGER aa BEFORE UPDATE ON task FOR EACH ROW WHEN (new.state = 'before') EXECUTE FUNCTION write_history();
CREATE TRIGGER zzz AFTER UPDATE ON task FOR EACH ROW WHEN (new.state = 'after') EXECUTE FUNCTION write_history();
UPDATE task SET state = 'before', token = :valid WHERE id = 1;
UPDATE task SET state = 'after', token = :valid WHERE id = 1;
BEGIN;
SELECT fencing.bind('resource_guard_paths/1', :valid) \gset
UPDATE task SET state = 'before' WHERE id IN (1, 5);
UPDATE task SET state = 'after' WHERE id IN (1, 5);
SAVEPOINT here;
UPDATE task SET state = 'after', token = :other WHERE id = 3;
ROLLBACK TO here;
CREATE TRIGGER zzzz AFTER UPDATE ON task EXECUTE FUNCTION write_history();
UPDATE task SET state = 'statement' WHERE id = 1;
SELECT * FROM history ORDER BY id;
SELECT token AS next FROM fencing.acquire('resource_guard_paths/1', steal => 'always') \gset
COMMIT;
SELECT count(*) FROM history;
DROP TRIGGER aa ON task;
DROP TRIGGER zzz ON task;

-- Functions with exception blocks: what is caught leaves neither a row nor a claim.
CREATE FUNCTION attempt(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    RETURN 'done';
EXCEPTION WHEN OTHERS THEN
    RETURN sqlstate;
END $$;
BEGIN;
SET LOCAL fencing.token = :valid;
SELECT attempt('UPDATE task SET state = ''block'' WHERE id = 1'), attempt('UPDATE task SET state = ''block'''),
    attempt('INSERT INTO task VALUES (1, 1)'), attempt('DELETE FROM task WHERE id = 3');
COMMIT;
SELECT id, job_id, state FROM task ORDER BY id;
-- The setting of a function: it ends with the function, what was written with it does not.
CREATE FUNCTION with_token(statement text) RETURNS text LANGUAGE plpgsql SET fencing.token = '33' AS $$
BEGIN
    EXECUTE statement;
    RETURN 'done';
END $$;
CREATE TABLE outside (id int PRIMARY KEY, token bigint);
SELECT fencing.protect('outside', 'token', 'resource_guard_paths/outside', issuer => 'external');
BEGIN;
SELECT with_token('INSERT INTO outside VALUES (1)');
SAVEPOINT here;
INSERT INTO outside VALUES (2);
ROLLBACK TO here;
SELECT fencing.advance('resource_guard_paths/outside', 34);
COMMIT;
SELECT with_token('INSERT INTO outside VALUES (1)');
SELECT * FROM outside;

-- CREATE TABLE AS, SELECT INTO and others write a table of their own; what they call is judged.
CREATE FUNCTION insert_outside(id int, token bigint) RETURNS int LANGUAGE sql AS
    'INSERT INTO test_resource_guard_paths.outside VALUES ($1, $2) RETURNING id';
CREATE TABLE made AS SELECT insert_outside(2, 32);
CREATE TABLE made AS SELECT insert_outside(2, 33);
SELECT * FROM outside ORDER BY id;
-- Data-modifying WITH, several resources in one statement.
WITH gone AS (DELETE FROM outside RETURNING *), kept AS (INSERT INTO task SELECT 20 + id, 1, 'with', :valid FROM outside)
SELECT count(*) FROM gone;
BEGIN;
SET LOCAL fencing.token = 33;
WITH gone AS (DELETE FROM outside RETURNING *)
SELECT count(*) FROM gone;
ROLLBACK;
BEGIN;
SELECT fencing.bind('resource_guard_paths/outside', 33) \gset
WITH gone AS (DELETE FROM outside RETURNING *), kept AS (INSERT INTO task SELECT 20 + id, 1, 'with', :valid FROM outside RETURNING id)
SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM kept);
SELECT fencing.advance('resource_guard_paths/outside', 34);
COMMIT;

-- Plans that could be parallel change nothing.
CREATE TABLE big AS SELECT n AS id, 'x' AS state FROM generate_series(1, 1000) AS n;
ANALYZE big;
SELECT fencing.protect('big', resource => 'resource_guard_paths/outside', issuer => 'external');
BEGIN;
SET LOCAL min_parallel_table_scan_size = 0;
SET LOCAL parallel_setup_cost = 0;
SET LOCAL parallel_tuple_cost = 0;
SET LOCAL max_parallel_workers_per_gather = 2;
SAVEPOINT here;
UPDATE big SET state = 'y';
ROLLBACK TO here;
SELECT fencing.bind('resource_guard_paths/outside', 40) \gset
UPDATE big SET state = 'y' WHERE id <= (SELECT count(*) FROM big);
CREATE TABLE copy AS SELECT count(*) AS n FROM big WHERE state = 'y';
DELETE FROM big USING (SELECT max(id) AS id FROM big) AS last WHERE big.id = last.id;
COMMIT;
SELECT n, token FROM copy, fencing.lookup('resource_guard_paths/outside');
SELECT count(*) FROM big, fencing.bind('resource_guard_paths/outside', 39);
SELECT count(*) FROM big, fencing.bind('resource_guard_paths/outside', 40);

-- Prepared statements judge each time anew; so does a cached plan in a function.
PREPARE write (int, bigint) AS UPDATE outside SET token = $2 WHERE id = $1 RETURNING *;
EXECUTE write (2, 40);
EXECUTE write (2, 39);
EXECUTE write (2, 41);
EXECUTE write (2, 41);
EXECUTE write (2, 41);
EXECUTE write (2, 41);
EXECUTE write (2, 41);
SELECT fencing.advance('resource_guard_paths/outside', 42);
EXECUTE write (2, 41);
EXECUTE write (2, 42);
-- An update through a cursor.
BEGIN;
SELECT fencing.bind('resource_guard_paths/outside', 42) \gset
DECLARE reading CURSOR FOR SELECT * FROM outside WHERE id = 2 FOR UPDATE;
FETCH reading;
UPDATE outside SET id = 3 WHERE CURRENT OF reading RETURNING *;
DELETE FROM outside WHERE id = 3 RETURNING *;
COMMIT;

-- Temporary and unlogged tables are tables.
CREATE TEMPORARY TABLE scratch (id int);
CREATE UNLOGGED TABLE cache (id int);
SELECT fencing.protect('scratch', resource => 'resource_guard_paths/1');
SELECT fencing.protect('cache', resource => 'resource_guard_paths/1');
INSERT INTO scratch VALUES (1);
INSERT INTO cache VALUES (1);
BEGIN;
SET LOCAL fencing.token = :valid;
INSERT INTO scratch VALUES (1);
INSERT INTO cache VALUES (1);
COMMIT;

SELECT fencing.forget('resource_guard_paths/outside');
SET client_min_messages = warning;
DROP SCHEMA test_resource_guard_paths CASCADE;
