-- MERGE and the resource fence: each of its actions (I5, I7, I8).
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
CREATE SCHEMA test_resource_guard_merge;
SET search_path = test_resource_guard_merge;
\set SHOW_CONTEXT never
\set VERBOSITY sqlstate
SELECT token AS stale FROM fencing.acquire('resource_guard_merge/1', '1 hour', 'w1') \gset
SELECT token AS valid FROM fencing.acquire('resource_guard_merge/1', '1 hour', 'w2', steal => 'always') \gset
SELECT token AS other FROM fencing.acquire('resource_guard_merge/2', '1 hour', 'w3') \gset
CREATE TABLE task (id int PRIMARY KEY, job_id int, state text, token bigint);
SELECT fencing.protect('task', 'token', 'resource_guard_merge/{job_id}');
INSERT INTO task VALUES (1, 1, 'new', :valid), (2, 1, 'new', :valid), (3, 2, 'new', :other);
CREATE TABLE source (id int, job_id int, state text);
INSERT INTO source VALUES (1, 1, 'update'), (2, 1, 'delete'), (10, 1, 'insert');

-- All three at once: missing, stale, bound, of another resource.
PREPARE merge AS
MERGE INTO task USING source ON task.id = source.id
    WHEN MATCHED AND source.state = 'delete' THEN DELETE
    WHEN MATCHED THEN UPDATE SET state = source.state
    WHEN NOT MATCHED THEN INSERT (id, job_id, state) VALUES (source.id, source.job_id, source.state);
EXECUTE merge;
BEGIN;
SET LOCAL fencing.token = :stale;
EXECUTE merge;
ROLLBACK;
BEGIN;
SELECT fencing.bind('resource_guard_merge/2', :other) \gset
EXECUTE merge;
ROLLBACK;
BEGIN;
SELECT fencing.bind('resource_guard_merge/1', :valid) \gset
EXECUTE merge;
SELECT id, job_id, state, token = :valid AS valid FROM task WHERE job_id = 1 ORDER BY id;
COMMIT;
-- Each of them alone.
MERGE INTO task USING source ON task.id = source.id AND source.id = 1 WHEN MATCHED THEN DELETE;
MERGE INTO task USING source ON task.id = source.id WHEN MATCHED THEN UPDATE SET state = 'missing';
MERGE INTO task USING source ON task.id = -source.id WHEN NOT MATCHED THEN INSERT VALUES (100 + source.id, 1, 'missing');
MERGE INTO task USING source ON task.id = -source.id WHEN NOT MATCHED THEN INSERT VALUES (100 + source.id, 1, 'stale', :stale);
MERGE INTO task USING source ON task.id = source.id WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED THEN DO NOTHING;
-- By the column, which each action has to name; a move to another resource needs both.
MERGE INTO task USING source ON task.id = source.id WHEN MATCHED THEN UPDATE SET state = 'column', token = :valid;
UPDATE source SET job_id = 2 WHERE id = 10;
MERGE INTO task USING source ON task.id = source.id WHEN MATCHED THEN UPDATE SET job_id = source.job_id, token = :other;
BEGIN;
SELECT fencing.bind('resource_guard_merge/1', :valid) \gset
MERGE INTO task USING source ON task.id = source.id
    WHEN MATCHED AND task.job_id <> source.job_id THEN UPDATE SET job_id = source.job_id, token = :other;
COMMIT;
SELECT id, job_id, token = :other AS other FROM task WHERE id = 10;
-- The source may bind.
MERGE INTO task USING (SELECT * FROM source, fencing.bind('resource_guard_merge/1', :valid)) AS source ON task.id = source.id AND task.job_id = 1
    WHEN MATCHED THEN UPDATE SET state = 'bound by the source';
SELECT id, state FROM task WHERE job_id = 1 ORDER BY id;
-- What MERGE has written is sealed.
BEGIN;
MERGE INTO task USING source ON task.id = source.id AND task.id = 1 WHEN MATCHED THEN UPDATE SET state = 'sealed', token = :valid;
SELECT count(*) FROM fencing.acquire('resource_guard_merge/1', steal => 'always');
COMMIT;
SELECT id, job_id, state FROM task ORDER BY id;

-- Between partitions, and to another resource on the way.
CREATE TABLE part (id int, job_id int, state text, token bigint) PARTITION BY LIST (state);
CREATE TABLE part_open PARTITION OF part FOR VALUES IN ('open');
CREATE TABLE part_done (token bigint, state text, job_id int, id int);
ALTER TABLE part ATTACH PARTITION part_done FOR VALUES IN ('done');
SELECT fencing.protect('part', 'token', 'resource_guard_merge/part-{job_id}', issuer => 'external');
INSERT INTO part VALUES (1, 1, 'open', 33);
MERGE INTO part USING (VALUES (1)) AS s (id) ON part.id = s.id WHEN MATCHED THEN UPDATE SET state = 'done';
MERGE INTO part USING (VALUES (1)) AS s (id) ON part.id = s.id WHEN MATCHED THEN UPDATE SET state = 'done', token = 32;
MERGE INTO part USING (VALUES (1)) AS s (id) ON part.id = s.id WHEN MATCHED THEN UPDATE SET state = 'done', token = 34;
MERGE INTO part USING (VALUES (1)) AS s (id) ON part.id = s.id WHEN MATCHED THEN UPDATE SET state = 'open', job_id = 2, token = 35;
SELECT tableoid::regclass AS partition, * FROM part;
SELECT resource, token FROM generate_series(1, 2) AS n, fencing.lookup('resource_guard_merge/part-' || n) ORDER BY resource;

SELECT count(fencing.forget('resource_guard_merge/part-' || n)) FROM generate_series(1, 2) AS n;
SET client_min_messages = warning;
DROP SCHEMA test_resource_guard_merge CASCADE;
