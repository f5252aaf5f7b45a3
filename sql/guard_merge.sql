-- MERGE on a guarded table (I4, I7, I8).
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
CREATE SCHEMA test_guard_merge;
SET search_path = test_guard_merge;
\set SHOW_CONTEXT never
CREATE TABLE account (id int PRIMARY KEY, balance int, token bigint);
INSERT INTO account VALUES (1, 100, 34), (2, 200, 34), (3, 300, NULL);
SELECT fencing.protect('account', 'token');

-- UPDATE: valid, stale, missing.
MERGE INTO account USING (VALUES (1, 101, 34)) AS s (id, balance, token) ON account.id = s.id
    WHEN MATCHED THEN UPDATE SET balance = s.balance, token = s.token;
MERGE INTO account USING (VALUES (1, 0, 33)) AS s (id, balance, token) ON account.id = s.id
    WHEN MATCHED THEN UPDATE SET balance = s.balance, token = s.token;
\echo :LAST_ERROR_SQLSTATE
MERGE INTO account USING (VALUES (1, 0)) AS s (id, balance) ON account.id = s.id
    WHEN MATCHED THEN UPDATE SET balance = s.balance;
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
MERGE INTO account USING (VALUES (1, 0)) AS s (id, balance) ON account.id = s.id
    WHEN MATCHED THEN UPDATE SET balance = s.balance, token = NULL;
-- A condition on the token in the statement leaves the stale one nothing to do.
MERGE INTO account USING (VALUES (1, 0, 33)) AS s (id, balance, token) ON account.id = s.id
    WHEN MATCHED AND account.token <= s.token THEN UPDATE SET balance = s.balance, token = s.token;

-- INSERT: named, not named.
MERGE INTO account USING (VALUES (4, 400, 33)) AS s (id, balance, token) ON account.id = s.id
    WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.balance, s.token);
MERGE INTO account USING (VALUES (5, 500)) AS s (id, balance) ON account.id = s.id
    WHEN NOT MATCHED THEN INSERT (id, balance) VALUES (s.id, s.balance);
MERGE INTO account USING (VALUES (5, 500)) AS s (id, balance) ON account.id = s.id
    WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.balance, 0);

-- DELETE takes the setting.
MERGE INTO account USING (VALUES (2)) AS s (id) ON account.id = s.id WHEN MATCHED THEN DELETE;
BEGIN;
SET LOCAL fencing.token = 33;
MERGE INTO account USING (VALUES (2)) AS s (id) ON account.id = s.id WHEN MATCHED THEN DELETE;
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = 34;
MERGE INTO account USING (VALUES (2)) AS s (id) ON account.id = s.id WHEN MATCHED THEN DELETE;
SELECT * FROM account ORDER BY id;
ROLLBACK;

-- DO NOTHING writes nothing and is asked for nothing.
MERGE INTO account USING (VALUES (1), (9)) AS s (id) ON account.id = s.id
    WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED THEN DO NOTHING;

-- All actions in one statement: valid ...
BEGIN;
SET LOCAL fencing.token = 35;
MERGE INTO account USING (VALUES (1, 'u'), (2, 'd'), (6, 'i')) AS s (id, what) ON account.id = s.id
    WHEN MATCHED AND what = 'u' THEN UPDATE SET balance = balance + 1
    WHEN MATCHED THEN DELETE
    WHEN NOT MATCHED THEN INSERT (id, balance) VALUES (s.id, 600);
COMMIT;
SELECT * FROM account ORDER BY id;
-- ... and with one row that is stale: nothing is written (I8).
BEGIN;
SET LOCAL fencing.token = 34;
MERGE INTO account USING (VALUES (3), (4), (1)) AS s (id) ON account.id = s.id
    WHEN MATCHED THEN UPDATE SET balance = 0;
ROLLBACK;
SELECT * FROM account ORDER BY id;

-- The setting comes before the column.
BEGIN;
SET LOCAL fencing.token = 36;
MERGE INTO account USING (VALUES (1, 99), (7, 99)) AS s (id, token) ON account.id = s.id
    WHEN MATCHED THEN UPDATE SET balance = 103, token = s.token
    WHEN NOT MATCHED THEN INSERT VALUES (s.id, 700, s.token);
COMMIT;
SELECT * FROM account ORDER BY id;

-- A MERGE that moves a row between partitions.
CREATE TABLE job (id int, state text, token bigint) PARTITION BY LIST (state);
CREATE TABLE job_open PARTITION OF job FOR VALUES IN ('open');
CREATE TABLE job_done PARTITION OF job FOR VALUES IN ('done');
INSERT INTO job VALUES (1, 'open', 34), (2, 'open', 34), (3, 'open', 34);
SELECT fencing.protect('job', 'token');
MERGE INTO job USING (VALUES (1)) AS s (id) ON job.id = s.id WHEN MATCHED THEN UPDATE SET state = 'done', token = 35;
MERGE INTO job USING (VALUES (2)) AS s (id) ON job.id = s.id WHEN MATCHED THEN UPDATE SET state = 'done', token = 33;
MERGE INTO job USING (VALUES (2)) AS s (id) ON job.id = s.id WHEN MATCHED THEN UPDATE SET state = 'done';
BEGIN;
SET LOCAL fencing.token = 36;
MERGE INTO job USING (VALUES (1, 'open'), (2, 'done'), (3, NULL), (4, 'open')) AS s (id, state) ON job.id = s.id
    WHEN MATCHED AND s.state IS NULL THEN DELETE
    WHEN MATCHED THEN UPDATE SET state = s.state
    WHEN NOT MATCHED THEN INSERT (id, state) VALUES (s.id, s.state);
COMMIT;
SELECT tableoid::regclass AS partition, * FROM job ORDER BY id;
-- The DELETE of one row does not pass as the leg of another's move.
MERGE INTO job USING (VALUES (1), (2)) AS s (id) ON job.id = s.id
    WHEN MATCHED AND s.id = 1 THEN UPDATE SET state = 'done', token = 36
    WHEN MATCHED THEN DELETE;
SELECT tableoid::regclass AS partition, * FROM job ORDER BY id;

SET client_min_messages = warning;
DROP SCHEMA test_guard_merge CASCADE;
