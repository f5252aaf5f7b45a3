-- Partitions and the resource fence: one guard for all of them, rows that move between them, and rows whose resource
-- changes on the way (I5, I7).
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
CREATE SCHEMA test_resource_guard_partition;
SET search_path = test_resource_guard_partition;
\set SHOW_CONTEXT never
SELECT token AS stale FROM fencing.acquire('resource_guard_partition/1', '1 hour', 'w1') \gset
SELECT token AS valid FROM fencing.acquire('resource_guard_partition/1', '1 hour', 'w2', steal => 'always') \gset
SELECT token AS other FROM fencing.acquire('resource_guard_partition/2', '1 hour', 'w3') \gset
CREATE TABLE word (token bigint, word text);
INSERT INTO word VALUES (:stale, 'stale'), (:valid, 'valid'), (:other, 'other');
CREATE FUNCTION word(token bigint) RETURNS text STABLE LANGUAGE sql AS
    'SELECT coalesce((SELECT word FROM test_resource_guard_partition.word WHERE word.token = $1), $1::text)';
CREATE TABLE task (id int, job_id int, state text, token bigint) PARTITION BY LIST (state);
CREATE TABLE task_open PARTITION OF task FOR VALUES IN ('open');
-- Its columns stand in another order, with a hole; the resource is found by the column's name in each of them.
CREATE TABLE task_done (token bigint, gone int, state text, id int, job_id int);
ALTER TABLE task_done DROP COLUMN gone;
ALTER TABLE task ATTACH PARTITION task_done FOR VALUES IN ('done');
-- One that is partitioned itself, by what the resource is made of.
CREATE TABLE task_late PARTITION OF task FOR VALUES IN ('late') PARTITION BY LIST (job_id);
CREATE TABLE task_late_1 PARTITION OF task_late FOR VALUES IN (1);
CREATE TABLE task_late_2 (job_id int, token bigint, id int, state text);
ALTER TABLE task_late ATTACH PARTITION task_late_2 FOR VALUES IN (2);
SELECT fencing.protect('task', 'token', 'resource_guard_partition/{job_id}');
CREATE VIEW shown AS SELECT tableoid::regclass AS partition, id, job_id, state, word(token) FROM task;

-- Writes by way of the root and directly, in each of them.
\set VERBOSITY sqlstate
INSERT INTO task VALUES (1, 1, 'open', :valid), (2, 1, 'done', :valid), (3, 1, 'late', :valid), (4, 2, 'done', :other), (5, 2, 'late', :other);
INSERT INTO task VALUES (6, 1, 'done', :stale);
INSERT INTO task_done (id, job_id, state) VALUES (6, 1, 'done');
INSERT INTO task_done (id, job_id, state, token) VALUES (6, 2, 'done', :valid);
INSERT INTO task_late_2 (id, job_id, state, token) VALUES (6, 2, 'late', :valid);
UPDATE task SET token = :valid WHERE id <= 3;
UPDATE task_done SET token = :stale WHERE id = 2;
UPDATE task_done SET token = :other WHERE id = 2;
UPDATE task SET id = id WHERE id = 3;
BEGIN;
SELECT fencing.bind('resource_guard_partition/1', :valid) \gset
INSERT INTO task VALUES (6, 1, 'open'), (7, 1, 'done'), (8, 1, 'late');
COPY task (id, job_id, state) FROM stdin;
9	1	done
10	1	late
\.
DELETE FROM task WHERE id >= 9;
SELECT * FROM shown ORDER BY id;
DELETE FROM task;
ROLLBACK;

-- A move between partitions, the resource stays: valid, stale, missing, of another resource.
UPDATE task SET state = 'done', token = :valid WHERE id = 1 RETURNING tableoid::regclass AS partition, id, word(token);
UPDATE task SET state = 'open', token = :stale WHERE id = 1;
UPDATE task SET state = 'open', token = :other WHERE id = 1;
UPDATE task SET state = 'open' WHERE id = 1;
BEGIN;
SELECT fencing.bind('resource_guard_partition/1', :valid) \gset
UPDATE task SET state = 'late' WHERE id = 1 RETURNING tableoid::regclass AS partition, id, word(token);
UPDATE task SET state = 'open' WHERE job_id = 1;
SELECT * FROM shown ORDER BY id;
COMMIT;
BEGIN;
SET LOCAL fencing.token = :valid;
UPDATE task SET state = 'done' WHERE id = 1 RETURNING tableoid::regclass AS partition, id, word(token);
UPDATE task SET state = 'late';
ROLLBACK;

-- A move that changes the resource needs a valid token for both, wherever the row goes.
UPDATE task SET state = 'late', job_id = 2, token = :other WHERE id = 1;
UPDATE task SET state = 'late', job_id = 2, token = :valid WHERE id = 1;
BEGIN;
SELECT fencing.bind('resource_guard_partition/1', :valid) \gset
SAVEPOINT here;
UPDATE task SET state = 'late', job_id = 2 WHERE id = 1;
ROLLBACK TO here;
SELECT fencing.bind('resource_guard_partition/2', :other) \gset
UPDATE task SET state = 'late', job_id = 2 WHERE id = 1 RETURNING tableoid::regclass AS partition, id, job_id, word(token);
COMMIT;
BEGIN;
SELECT fencing.bind('resource_guard_partition/1', :valid) \gset
UPDATE task SET state = 'done', job_id = 2, token = :other WHERE id = 2 RETURNING tableoid::regclass AS partition, id, job_id, word(token);
COMMIT;
-- The resource alone decides where the row is.
BEGIN;
SELECT fencing.bind('resource_guard_partition/1', :valid) \gset
UPDATE task SET state = 'late' WHERE id = 3;
UPDATE task SET job_id = 2, token = :other WHERE id = 3 RETURNING tableoid::regclass AS partition, id, job_id, word(token);
COMMIT;
-- Back to the lower token: the row's own must not fall (I4), also when the row moves.
BEGIN;
SELECT fencing.bind('resource_guard_partition/1', :valid) \gset
SELECT fencing.bind('resource_guard_partition/2', :other) \gset
UPDATE task SET job_id = 1, state = 'open' WHERE id = 1;
ROLLBACK;
SELECT * FROM shown ORDER BY id;
-- Both resources are sealed: here that to which the row has come, and here that which it has left.
SELECT token AS valid FROM fencing.acquire('resource_guard_partition/1', '1 hour', 'w4', steal => 'always') \gset
INSERT INTO word VALUES (:valid, 'valid again');
BEGIN;
SELECT fencing.bind('resource_guard_partition/2', :other) \gset
SET LOCAL fencing.token = :valid;
UPDATE task SET job_id = 1, state = 'done' WHERE id = 5;
SELECT count(*) FROM fencing.acquire('resource_guard_partition/1', steal => 'always');
COMMIT;
BEGIN;
SELECT fencing.bind('resource_guard_partition/2', :other) \gset
SET LOCAL fencing.token = :valid;
UPDATE task SET job_id = 1, state = 'done' WHERE id = 5;
SELECT count(*) FROM fencing.acquire('resource_guard_partition/2', steal => 'always');
COMMIT;
SELECT * FROM shown WHERE id = 5;

-- Without a token column: the same, and nothing is stamped.
CREATE TABLE bare (id int, job_id int, state text) PARTITION BY LIST (state);
CREATE TABLE bare_open PARTITION OF bare FOR VALUES IN ('open');
CREATE TABLE bare_done (state text, job_id int, id int);
ALTER TABLE bare ATTACH PARTITION bare_done FOR VALUES IN ('done');
INSERT INTO bare VALUES (1, 1, 'open'), (2, 2, 'open');
SELECT fencing.protect('bare', resource => 'resource_guard_partition/{job_id}');
UPDATE bare SET state = 'done' WHERE id = 1;
BEGIN;
SELECT fencing.bind('resource_guard_partition/1', :valid) \gset
UPDATE bare SET state = 'done' WHERE id = 1 RETURNING tableoid::regclass AS partition, *;
SAVEPOINT here;
UPDATE bare SET state = 'done' WHERE id = 2;
ROLLBACK TO here;
UPDATE bare SET state = 'open', job_id = 2 WHERE id = 1;
ROLLBACK TO here;
SELECT fencing.bind('resource_guard_partition/2', :other) \gset
UPDATE bare SET state = CASE state WHEN 'open' THEN 'done' ELSE 'open' END, job_id = 3 - job_id;
SELECT tableoid::regclass AS partition, * FROM bare ORDER BY id;
COMMIT;

-- From elsewhere: a move by a greater token raises the fences of both.
CREATE TABLE outside (id int, job_id int, state text, token bigint) PARTITION BY LIST (state);
CREATE TABLE outside_open PARTITION OF outside FOR VALUES IN ('open');
CREATE TABLE outside_done PARTITION OF outside FOR VALUES IN ('done');
SELECT fencing.protect('outside', 'token', 'resource_guard_partition/outside-{job_id}', issuer => 'external');
INSERT INTO outside VALUES (1, 1, 'open', 33);
UPDATE outside SET state = 'done', token = 34 WHERE id = 1 RETURNING tableoid::regclass AS partition, *;
UPDATE outside SET state = 'open', token = 33 WHERE id = 1;
UPDATE outside SET state = 'open', job_id = 2, token = 35 WHERE id = 1 RETURNING tableoid::regclass AS partition, *;
SELECT resource, token FROM generate_series(1, 2) AS n, fencing.lookup('resource_guard_partition/outside-' || n) ORDER BY resource;
UPDATE outside SET state = 'done', job_id = 1, token = 34 WHERE id = 1;

-- Guarded writes in between, of other resources and of a table of their own, do not make the guard forget the row.
CREATE TABLE audit (what text);
SELECT fencing.advance('resource_guard_partition/outside-audit', 33);
SELECT fencing.protect('audit', resource => 'resource_guard_partition/outside-audit', issuer => 'external');
CREATE FUNCTION write_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO test_resource_guard_partition.audit VALUES (tg_op || ' ' || tg_table_name);
    RETURN CASE tg_op WHEN 'DELETE' THEN old ELSE new END;
END $$;
CREATE TRIGGER aa_audit BEFORE INSERT OR UPDATE OR DELETE ON outside_open FOR EACH ROW EXECUTE FUNCTION write_audit();
CREATE TRIGGER aa_audit BEFORE INSERT OR UPDATE OR DELETE ON outside_done FOR EACH ROW EXECUTE FUNCTION write_audit();
BEGIN;
SELECT fencing.bind('resource_guard_partition/outside-audit', 33) \gset
UPDATE outside SET state = 'done', token = 36 WHERE id = 1 RETURNING tableoid::regclass AS partition, *;
SELECT what FROM audit ORDER BY what;
COMMIT;
-- A nested write that carries none in the middle of a valid move.
UPDATE outside SET state = 'open', token = 36 WHERE id = 1;
SELECT fencing.unprotect('audit');
DROP TRIGGER aa_audit ON outside_open;
DROP TRIGGER aa_audit ON outside_done;

-- A trigger of the target sends the row to another resource: what the guard itself has written for the first one says
-- nothing there, what the statement names does.
CREATE FUNCTION move_on() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN new.job_id := 3; RETURN new; END$$;
CREATE TRIGGER aa_move_on BEFORE INSERT ON outside_done FOR EACH ROW EXECUTE FUNCTION move_on();
INSERT INTO outside VALUES (2, 1, 'open', 36);
BEGIN;
SELECT fencing.bind('resource_guard_partition/outside-1', 37) \gset
UPDATE outside SET state = 'done' WHERE id = 2;
ROLLBACK;
UPDATE outside SET state = 'done', token = 37 WHERE id = 2 RETURNING tableoid::regclass AS partition, *;
DROP TRIGGER aa_move_on ON outside_done;

-- TRUNCATE of a partition is asked for like that of the table.
TRUNCATE task;
TRUNCATE task_late_2;
CREATE TABLE one (id int, state text) PARTITION BY LIST (state);
CREATE TABLE one_open PARTITION OF one FOR VALUES IN ('open');
SELECT fencing.protect('one', resource => 'resource_guard_partition/1');
TRUNCATE one_open;
BEGIN;
SET LOCAL fencing.token = :stale;
TRUNCATE one_open;
ROLLBACK;
BEGIN;
SELECT fencing.bind('resource_guard_partition/1', :valid) \gset
TRUNCATE one_open;
TRUNCATE one;
COMMIT;

-- A partition that is attached later has the guard, and is asked for its own columns.
CREATE TABLE task_lost (job_id int, state text, token bigint, id int);
ALTER TABLE task ATTACH PARTITION task_lost FOR VALUES IN ('lost');
INSERT INTO task VALUES (20, 1, 'lost', :stale);
INSERT INTO task VALUES (20, 1, 'lost', :valid);
BEGIN;
SELECT fencing.bind('resource_guard_partition/1', :valid) \gset
UPDATE task SET state = 'open' WHERE id = 20 RETURNING tableoid::regclass AS partition, id, job_id, state, word(token);
ROLLBACK;

SELECT count(fencing.forget('resource_guard_partition/outside-' || name)) FROM unnest('{1,2,3,audit}'::text[]) AS name;
SET client_min_messages = warning;
DROP SCHEMA test_resource_guard_partition CASCADE;
