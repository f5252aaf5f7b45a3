-- missing => 'allow': a write without a token passes and keeps the row's token; a stale one does not pass (I4).
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
CREATE SCHEMA test_guard_missing;
SET search_path = test_guard_missing;
\set SHOW_CONTEXT never
\set VERBOSITY sqlstate
CREATE TABLE account (id int PRIMARY KEY, balance int, token bigint);
SELECT fencing.protect('account', 'token', missing => 'allow');

-- A row that nobody fenced: it may come, change and go.
INSERT INTO account VALUES (1, 100);
INSERT INTO account VALUES (2, 200, NULL), (3, 300, 0);
UPDATE account SET balance = balance + 1;
SELECT * FROM account ORDER BY id;
DELETE FROM account WHERE id = 3;
COPY account (id, balance) FROM stdin;
4	400
\.

-- A fenced one keeps its token, also where the statement writes "none" over it.
UPDATE account SET balance = balance + 1, token = 34 WHERE id = 1 RETURNING *;
UPDATE account SET balance = balance + 1 WHERE id = 1 RETURNING *;
UPDATE account SET balance = balance + 1, token = NULL WHERE id = 1 RETURNING *;
UPDATE account SET balance = balance + 1, token = 0 WHERE id = 1 RETURNING *;
UPDATE account SET balance = balance + 1, token = DEFAULT WHERE id = 1 RETURNING *;
INSERT INTO account (id, balance) VALUES (1, 106) ON CONFLICT (id) DO UPDATE SET balance = excluded.balance RETURNING *;
INSERT INTO account (id, balance) VALUES (1, 107) ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, token = excluded.token RETURNING *;
INSERT INTO account (id, balance) VALUES (1, 0) ON CONFLICT DO NOTHING;

-- A token that is carried is judged.
UPDATE account SET balance = 0, token = 33 WHERE id = 1;
UPDATE account SET balance = 0, token = -1 WHERE id = 1;
INSERT INTO account VALUES (1, 0, 33) ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, token = excluded.token;
BEGIN;
SET LOCAL fencing.token = 33;
UPDATE account SET balance = 0 WHERE id = 1;
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = 33;
DELETE FROM account WHERE id = 1;
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = 35;
UPDATE account SET balance = 108 WHERE id = 1 RETURNING *;
COMMIT;

-- DELETE and TRUNCATE without a token.
DELETE FROM account WHERE id = 1 RETURNING *;
TRUNCATE account;
SELECT count(*) FROM account;

-- With source => 'transaction' the column is none of its own accord: nothing that a program writes into it
-- moves a row's token, up or down, or gives one to a row that has none.
SELECT fencing.protect('account', 'token', source => 'transaction', missing => 'allow');
BEGIN;
SET LOCAL fencing.token = 34;
INSERT INTO account VALUES (1, 100);
COMMIT;
UPDATE account SET balance = balance + 1, token = 99 WHERE id = 1 RETURNING *;
UPDATE account SET balance = balance + 1, token = 12 WHERE id = 1 RETURNING *;
UPDATE account SET balance = balance + 1, token = NULL WHERE id = 1 RETURNING *;
INSERT INTO account VALUES (1, 104, 99) ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, token = excluded.token RETURNING *;
INSERT INTO account VALUES (2, 200, 99) RETURNING id, coalesce(token, 0) AS token;
BEGIN;
SET LOCAL fencing.token = 33;
UPDATE account SET balance = 0, token = 99 WHERE id = 1;
ROLLBACK;

-- missing => 'reject' is the default and can be said.
SELECT fencing.protect('account', 'token', missing => 'reject');
UPDATE account SET balance = 0 WHERE id = 1;
TRUNCATE account;

-- Foreign keys act on rows of a lenient table without being asked for a token, and leave the one that is there.
CREATE TABLE owner (id int PRIMARY KEY);
CREATE TABLE card (id int, owner int REFERENCES owner ON DELETE SET NULL ON UPDATE CASCADE, token bigint);
SELECT fencing.protect('card', 'token', missing => 'allow');
INSERT INTO owner VALUES (1);
INSERT INTO card VALUES (1, 1, 34);
UPDATE owner SET id = 2;
SELECT * FROM card;
DELETE FROM owner;
SELECT * FROM card;

SET client_min_messages = warning;
DROP SCHEMA test_guard_missing CASCADE;
