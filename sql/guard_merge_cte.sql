-- MERGE inside WITH, with RETURNING, and by source: from PostgreSQL 17 on (I4, I7, I8).
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
CREATE SCHEMA test_guard_merge_cte;
SET search_path = test_guard_merge_cte;
\set SHOW_CONTEXT never
CREATE TABLE account (id int PRIMARY KEY, balance int, token bigint);
INSERT INTO account VALUES (1, 100, 34), (2, 200, 34), (3, 300, NULL);
SELECT fencing.protect('account', 'token');

-- Valid: what comes back shows the token that was written.
WITH merged AS (
    MERGE INTO account USING (VALUES (1, 101, 35), (4, 400, 35)) AS s (id, balance, token) ON account.id = s.id
        WHEN MATCHED THEN UPDATE SET balance = s.balance, token = s.token
        WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.balance, s.token)
        RETURNING merge_action() AS action, account.*)
SELECT * FROM merged ORDER BY id;
BEGIN;
SET LOCAL fencing.token = 36;
WITH merged AS (
    MERGE INTO account USING (VALUES (1, 'u'), (2, 'd'), (5, 'i')) AS s (id, what) ON account.id = s.id
        WHEN MATCHED AND what = 'u' THEN UPDATE SET balance = balance + 1, token = 12
        WHEN MATCHED THEN DELETE
        WHEN NOT MATCHED THEN INSERT VALUES (s.id, 500)
        RETURNING merge_action() AS action, account.*)
SELECT * FROM merged ORDER BY id;
COMMIT;

-- Stale.
WITH merged AS (
    MERGE INTO account USING (VALUES (1, 0, 35)) AS s (id, balance, token) ON account.id = s.id
        WHEN MATCHED THEN UPDATE SET balance = s.balance, token = s.token
        RETURNING account.*)
SELECT * FROM merged;
\echo :LAST_ERROR_SQLSTATE
-- Missing.
WITH merged AS (
    MERGE INTO account USING (VALUES (1, 0)) AS s (id, balance) ON account.id = s.id
        WHEN MATCHED THEN UPDATE SET balance = s.balance
        RETURNING account.*)
SELECT * FROM merged;
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
WITH merged AS (
    MERGE INTO account USING (VALUES (1)) AS s (id) ON account.id = s.id
        WHEN MATCHED THEN DELETE
        RETURNING account.*)
SELECT * FROM merged;

-- Rows without a counterpart.
MERGE INTO account USING (VALUES (1)) AS s (id) ON account.id = s.id
    WHEN NOT MATCHED BY SOURCE THEN DELETE;
MERGE INTO account USING (VALUES (1)) AS s (id) ON account.id = s.id
    WHEN NOT MATCHED BY SOURCE AND account.id = 4 THEN UPDATE SET balance = 0, token = 34;
MERGE INTO account USING (VALUES (1)) AS s (id) ON account.id = s.id
    WHEN NOT MATCHED BY SOURCE AND account.id = 4 THEN UPDATE SET balance = 401, token = 35
    RETURNING merge_action(), account.*;
BEGIN;
SET LOCAL fencing.token = 36;
MERGE INTO account USING (VALUES (1)) AS s (id) ON account.id = s.id
    WHEN NOT MATCHED BY SOURCE THEN DELETE;
COMMIT;
SELECT * FROM account ORDER BY id;

-- An updatable view as the target, and a row that moves between partitions.
CREATE VIEW open_account AS SELECT id AS number, balance, token AS fence FROM account;
MERGE INTO open_account AS v USING (VALUES (1)) AS s (id) ON v.number = s.id
    WHEN MATCHED THEN UPDATE SET balance = 0, fence = 35;
MERGE INTO open_account AS v USING (VALUES (1)) AS s (id) ON v.number = s.id
    WHEN MATCHED THEN UPDATE SET balance = 0;
MERGE INTO open_account AS v USING (VALUES (1)) AS s (id) ON v.number = s.id
    WHEN MATCHED THEN UPDATE SET balance = 103, fence = 36 RETURNING v.*;
CREATE TABLE job (id int, state text, token bigint) PARTITION BY LIST (state);
CREATE TABLE job_open PARTITION OF job FOR VALUES IN ('open');
CREATE TABLE job_done PARTITION OF job FOR VALUES IN ('done');
INSERT INTO job VALUES (1, 'open', 34);
SELECT fencing.protect('job', 'token');
WITH moved AS (
    MERGE INTO job USING (VALUES (1)) AS s (id) ON job.id = s.id
        WHEN MATCHED THEN UPDATE SET state = 'done', token = 35
        RETURNING job.tableoid::regclass AS partition, job.*)
SELECT * FROM moved;
WITH moved AS (
    MERGE INTO job USING (VALUES (1)) AS s (id) ON job.id = s.id
        WHEN MATCHED THEN UPDATE SET state = 'open', token = 34
        RETURNING job.*)
SELECT * FROM moved;
-- Two guarded writes in one statement, each judged by itself.
WITH moved AS (
    MERGE INTO job USING (VALUES (1)) AS s (id) ON job.id = s.id
        WHEN MATCHED THEN UPDATE SET state = 'open', token = 35 RETURNING job.id)
UPDATE account SET balance = 0 FROM moved WHERE account.id = moved.id;
SELECT tableoid::regclass AS partition, * FROM job;
SELECT * FROM account ORDER BY id;

SET client_min_messages = warning;
DROP SCHEMA test_guard_merge_cte CASCADE;
