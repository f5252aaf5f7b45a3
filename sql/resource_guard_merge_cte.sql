-- MERGE inside WITH, with RETURNING, and by source, under the resource fence: from PostgreSQL 17 on (I5, I7, I8).
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
CREATE SCHEMA test_resource_guard_merge_cte;
SET search_path = test_resource_guard_merge_cte;
\set SHOW_CONTEXT never
\set VERBOSITY sqlstate
SELECT token AS stale FROM fencing.acquire('resource_guard_merge_cte/1', '1 hour', 'w1') \gset
SELECT token AS valid FROM fencing.acquire('resource_guard_merge_cte/1', '1 hour', 'w2', steal => 'always') \gset
CREATE TABLE task (id int PRIMARY KEY, job_id int, state text, token bigint);
SELECT fencing.protect('task', 'token', 'resource_guard_merge_cte/{job_id}');
INSERT INTO task VALUES (1, 1, 'new', :valid), (2, 1, 'new', :valid);
PREPARE merge AS
WITH merged AS (
    MERGE INTO task USING (VALUES (1, 'update'), (2, 'delete'), (3, 'insert')) AS s (id, what) ON task.id = s.id
        WHEN MATCHED AND what = 'delete' THEN DELETE
        WHEN MATCHED THEN UPDATE SET state = what
        WHEN NOT MATCHED THEN INSERT VALUES (s.id, 1, what)
        RETURNING merge_action() AS action, task.*)
SELECT action, id, job_id, state, token = $1 AS valid FROM merged ORDER BY id;

-- Missing, stale, bound.
EXECUTE merge (:valid);
BEGIN;
SET LOCAL fencing.token = :stale;
EXECUTE merge (:valid);
ROLLBACK;
BEGIN;
SELECT fencing.bind('resource_guard_merge_cte/1', :valid) \gset
EXECUTE merge (:valid);
COMMIT;
-- By the column: valid, stale, missing.
WITH merged AS (
    MERGE INTO task USING (VALUES (1, :valid), (4, :valid)) AS s (id, token) ON task.id = s.id
        WHEN MATCHED THEN UPDATE SET state = 'column', token = s.token
        WHEN NOT MATCHED THEN INSERT VALUES (s.id, 1, 'column', s.token)
        RETURNING merge_action() AS action, task.*)
SELECT action, id, job_id, state, token = :valid AS valid FROM merged ORDER BY id;
WITH merged AS (
    MERGE INTO task USING (VALUES (1, :stale)) AS s (id, token) ON task.id = s.id
        WHEN MATCHED THEN UPDATE SET state = 'stale', token = s.token
        RETURNING task.*)
SELECT count(*) FROM merged;
WITH merged AS (
    MERGE INTO task USING (VALUES (1)) AS s (id) ON task.id = s.id
        WHEN MATCHED THEN UPDATE SET state = 'missing'
        RETURNING task.*)
SELECT count(*) FROM merged;
WITH merged AS (
    MERGE INTO task USING (VALUES (1)) AS s (id) ON task.id = s.id
        WHEN MATCHED THEN DELETE
        RETURNING task.*)
SELECT count(*) FROM merged;

-- Rows without a counterpart.
MERGE INTO task USING (VALUES (1)) AS s (id) ON task.id = s.id WHEN NOT MATCHED BY SOURCE THEN DELETE;
MERGE INTO task USING (VALUES (1)) AS s (id) ON task.id = s.id
    WHEN NOT MATCHED BY SOURCE THEN UPDATE SET state = 'by source', token = :stale;
MERGE INTO task USING (VALUES (1)) AS s (id) ON task.id = s.id
    WHEN NOT MATCHED BY SOURCE AND task.id = 3 THEN UPDATE SET state = 'by source', token = :valid
    RETURNING merge_action(), task.id, state;
BEGIN;
SELECT fencing.bind('resource_guard_merge_cte/1', :valid) \gset
MERGE INTO task USING (VALUES (1)) AS s (id) ON task.id = s.id WHEN NOT MATCHED BY SOURCE AND task.id = 4 THEN DELETE
    RETURNING merge_action(), task.id, state;
COMMIT;

-- What MERGE writes in a WITH is sealed, beside what the statement itself writes.
CREATE TABLE outside (id int);
SELECT fencing.protect('outside', resource => 'resource_guard_merge_cte/outside', issuer => 'external');
BEGIN;
SET LOCAL fencing.token = :valid;
WITH merged AS (
    MERGE INTO task USING (VALUES (1)) AS s (id) ON task.id = s.id
        WHEN MATCHED THEN UPDATE SET state = 'sealed'
        RETURNING task.id)
INSERT INTO outside SELECT id FROM merged;
SAVEPOINT here;
SELECT count(*) FROM fencing.acquire('resource_guard_merge_cte/1', steal => 'always');
ROLLBACK TO here;
COMMIT;
SELECT token = :valid AS valid FROM fencing.lookup('resource_guard_merge_cte/outside');
BEGIN;
SET LOCAL fencing.token = :valid;
WITH merged AS (
    MERGE INTO task USING (VALUES (1)) AS s (id) ON task.id = s.id
        WHEN MATCHED THEN UPDATE SET state = 'not sealed'
        RETURNING task.id)
INSERT INTO outside SELECT id FROM merged;
SELECT count(*) FROM fencing.acquire('resource_guard_merge_cte/1', steal => 'always');
COMMIT;
SELECT id, state FROM task ORDER BY id;
SELECT count(*) FROM outside;

SELECT fencing.forget('resource_guard_merge_cte/outside');
SET client_min_messages = warning;
DROP SCHEMA test_resource_guard_merge_cte CASCADE;
