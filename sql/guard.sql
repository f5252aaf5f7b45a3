-- The row fence: which writes a guarded table takes, for each way to write: with a valid token, with a
-- stale one, with none (I4, I7, I8).
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
CREATE SCHEMA test_guard;
SET search_path = test_guard;
\set SHOW_CONTEXT never
CREATE TABLE account (id int PRIMARY KEY, balance int, token bigint);
INSERT INTO account VALUES (1, 100, NULL), (2, 200, 0);
SELECT fencing.protect('account', 'token');

-- INSERT, column path: the token that the statement names.
INSERT INTO account VALUES (3, 300, 33);
INSERT INTO account (token, id, balance) SELECT 33, 4, 400;
-- INSERT without one: not named, NULL, 0, DEFAULT.
INSERT INTO account (id, balance) VALUES (5, 500);
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
INSERT INTO account VALUES (5, 500, NULL);
INSERT INTO account VALUES (5, 500, 0);
INSERT INTO account VALUES (5, 500, DEFAULT);
INSERT INTO account SELECT 5, 500;
-- One bad row, and no row is written (I8).
INSERT INTO account VALUES (5, 500, 33), (6, 600, NULL);
-- A negative number is no token.
\set VERBOSITY default
INSERT INTO account VALUES (5, 500, -1);
\echo :LAST_ERROR_SQLSTATE
-- INSERT, setting path: the guard writes the token into the row.
BEGIN;
SET LOCAL fencing.token = 33;
INSERT INTO account (id, balance) VALUES (7, 700) RETURNING *;
COMMIT;
SELECT * FROM account ORDER BY id;

-- UPDATE, column path. A row that was never fenced takes any token.
UPDATE account SET balance = balance + 1, token = 33 WHERE id IN (1, 2);
-- Greater, equal, and written back as it was read.
UPDATE account SET balance = balance + 1, token = 34 WHERE id = 1;
UPDATE account SET balance = balance + 1, token = 34 WHERE id = 1;
UPDATE account SET balance = balance + 1, token = token WHERE id = 1;
UPDATE account SET (balance, token) = (balance + 1, 34) WHERE id = 1;
-- Lower is stale.
UPDATE account SET balance = 0, token = 33 WHERE id = 1;
\echo :LAST_ERROR_SQLSTATE
-- The payload alone is a write without a token, never a write with the old one.
UPDATE account SET balance = 0 WHERE id = 1;
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
UPDATE account SET balance = balance WHERE id = 1;
UPDATE account SET id = 10 WHERE id = 1;
-- Nor does the column count when it says "none": the row keeps its token (I4).
UPDATE account SET balance = 0, token = NULL WHERE id = 1;
UPDATE account SET balance = 0, token = 0 WHERE id = 1;
UPDATE account SET balance = 0, token = DEFAULT WHERE id = 1;
UPDATE account SET balance = 0, token = -34 WHERE id = 1;
-- A stale row among others, and none is written (I8).
UPDATE account SET balance = 0, token = 33;
-- Joined from elsewhere.
UPDATE account SET balance = v.balance, token = v.token FROM (VALUES (1, 0, 33)) AS v (id, balance, token) WHERE account.id = v.id;
UPDATE account SET balance = v.balance, token = v.token FROM (VALUES (1, 104, 35)) AS v (id, balance, token) WHERE account.id = v.id;
SELECT * FROM account ORDER BY id;

-- UPDATE, setting path: stamped, in every row that is written.
BEGIN;
SET LOCAL fencing.token = 36;
UPDATE account SET balance = balance + 1 WHERE id <= 2;
COMMIT;
SELECT * FROM account ORDER BY id;
BEGIN;
SET LOCAL fencing.token = 35;
UPDATE account SET balance = 0 WHERE id = 1;
ROLLBACK;
SELECT * FROM account ORDER BY id;

-- The setting comes before the column, and is what is written: whether the column says more, less or none.
BEGIN;
SET LOCAL fencing.token = 37;
UPDATE account SET balance = balance + 1, token = 99 WHERE id = 1 RETURNING token;
UPDATE account SET balance = balance + 1, token = 12 WHERE id = 1 RETURNING token;
UPDATE account SET balance = balance + 1, token = NULL WHERE id = 1 RETURNING token;
UPDATE account SET balance = balance + 1, token = 0 WHERE id = 1 RETURNING token;
INSERT INTO account VALUES (8, 800, 99), (9, 900, NULL);
SELECT id, token FROM account WHERE id IN (8, 9) ORDER BY id;
ROLLBACK;
-- A stale setting is not saved by a better column.
BEGIN;
SET LOCAL fencing.token = 35;
UPDATE account SET balance = 0, token = 99 WHERE id = 1;
ROLLBACK;
-- A setting of 0 is none: the column counts.
BEGIN;
SET LOCAL fencing.token = 0;
UPDATE account SET balance = balance, token = 36 WHERE id = 1 RETURNING token;
UPDATE account SET balance = 0 WHERE id = 1;
ROLLBACK;

-- DELETE has no column to name: it takes the setting.
DELETE FROM account WHERE id = 1;
BEGIN;
SET LOCAL fencing.token = 35;
DELETE FROM account WHERE id = 1;
ROLLBACK;
-- One of many rows was written with a greater token, and none is gone (I8).
BEGIN;
SET LOCAL fencing.token = 33;
DELETE FROM account;
ROLLBACK;
SELECT count(*) FROM account;
BEGIN;
SET LOCAL fencing.token = 36;
DELETE FROM account;
SELECT count(*) FROM account;
ROLLBACK;
-- Equal is enough, more as well.
BEGIN;
SET LOCAL fencing.token = 36;
DELETE FROM account WHERE id = 1;
SET LOCAL fencing.token = 37;
DELETE FROM account WHERE id = 2;
ROLLBACK;
-- A row that was never fenced wants a token, too.
ALTER TABLE account DISABLE TRIGGER USER;
INSERT INTO account VALUES (20, 0, NULL);
ALTER TABLE account ENABLE TRIGGER USER;
DELETE FROM account WHERE id = 20;
BEGIN;
SET LOCAL fencing.token = 1;
DELETE FROM account WHERE id = 20;
COMMIT;

-- COPY: the column, if it is among those copied.
COPY account FROM stdin;
30	3000	33
\.
COPY account (id, token) FROM stdin;
31	33
\.
COPY account (id, balance) FROM stdin;
32	3200
\.
COPY account FROM stdin;
32	3200	\N
\.
COPY account FROM stdin;
32	3200	0
\.
COPY account FROM stdin;
32	3200	-1
\.
-- One bad line, and no line is kept (I8).
COPY account FROM stdin;
33	3300	33
34	3400	\N
\.
-- Or the setting.
BEGIN;
SET LOCAL fencing.token = 34;
COPY account (id, balance) FROM stdin;
35	3500
\.
COPY account FROM stdin;
36	3600	99
\.
COMMIT;
SELECT * FROM account WHERE id >= 30 ORDER BY id;
-- COPY TO and SELECT read, and reading is free; so is locking.
COPY (SELECT * FROM account ORDER BY id) TO stdout;
SELECT id FROM account WHERE id = 1 FOR UPDATE;

-- ON CONFLICT DO UPDATE: both the row offered and the SET list want a token.
INSERT INTO account VALUES (1, 106, 36) ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, token = excluded.token RETURNING *;
INSERT INTO account VALUES (1, 0, 35) ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, token = excluded.token;
INSERT INTO account VALUES (1, 0, 36) ON CONFLICT (id) DO UPDATE SET balance = excluded.balance;
INSERT INTO account (id, balance) VALUES (1, 0) ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, token = excluded.token;
INSERT INTO account (id, balance) VALUES (1, 0) ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, token = 99;
-- Where there is no conflict it is an INSERT.
INSERT INTO account VALUES (40, 4000, 33) ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, token = excluded.token RETURNING *;
-- With the setting: both are stamped.
BEGIN;
SET LOCAL fencing.token = 36;
INSERT INTO account (id, balance) VALUES (1, 107), (41, 4100) ON CONFLICT (id) DO UPDATE SET balance = excluded.balance;
COMMIT;
SELECT * FROM account WHERE id IN (1, 41) ORDER BY id;
BEGIN;
SET LOCAL fencing.token = 35;
INSERT INTO account (id, balance) VALUES (1, 0), (42, 4200) ON CONFLICT (id) DO UPDATE SET balance = excluded.balance;
ROLLBACK;
-- A WHERE that finds nothing writes nothing.
INSERT INTO account VALUES (1, 0, 35) ON CONFLICT (id) DO UPDATE SET balance = 0, token = excluded.token WHERE account.token <= excluded.token RETURNING *;

-- ON CONFLICT DO NOTHING: the row offered wants a token. Where it is not written, nothing is lost to a stale one.
INSERT INTO account VALUES (1, 0, 35) ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO account (id, balance) VALUES (1, 0) ON CONFLICT DO NOTHING;
INSERT INTO account (id, balance) VALUES (43, 0) ON CONFLICT DO NOTHING;
INSERT INTO account VALUES (43, 4300, 33) ON CONFLICT DO NOTHING RETURNING *;
SELECT * FROM account WHERE id IN (1, 40, 41, 42, 43) ORDER BY id;

-- An updatable view writes to the table underneath.
CREATE VIEW open_account AS SELECT id AS number, token AS fence, balance FROM account WHERE balance > 0;
UPDATE open_account SET balance = 108, fence = 36 WHERE number = 1;
UPDATE open_account SET balance = 1, fence = 35 WHERE number = 1;
UPDATE open_account SET balance = 1 WHERE number = 1;
INSERT INTO open_account VALUES (50, 33, 5000);
INSERT INTO open_account (number, balance) VALUES (51, 5100);
DELETE FROM open_account WHERE number = 50;
BEGIN;
SET LOCAL fencing.token = 36;
UPDATE open_account SET balance = 109 WHERE number = 1 RETURNING *;
INSERT INTO open_account (number, balance) VALUES (51, 5100) RETURNING *;
DELETE FROM open_account WHERE number = 50 RETURNING *;
COMMIT;
-- One that does not show the column takes the setting.
CREATE VIEW bare_account AS SELECT id, balance FROM account;
UPDATE bare_account SET balance = 1 WHERE id = 1;
BEGIN;
SET LOCAL fencing.token = 36;
UPDATE bare_account SET balance = 110 WHERE id = 1;
COMMIT;
SELECT * FROM account WHERE id IN (1, 50, 51) ORDER BY id;

-- A data-modifying WITH.
WITH moved AS (UPDATE account SET balance = balance - 10, token = 36 WHERE id = 1 RETURNING balance)
SELECT * FROM moved;
WITH moved AS (UPDATE account SET balance = balance - 10 WHERE id = 1 RETURNING balance)
SELECT * FROM moved;

-- A prepared statement judges each time anew: what was valid is stale once another has written.
PREPARE spend (bigint) AS UPDATE account SET balance = balance - 1, token = $1 WHERE id = 1 RETURNING *;
EXECUTE spend (36);
EXECUTE spend (36);
EXECUTE spend (36);
EXECUTE spend (36);
EXECUTE spend (36);
EXECUTE spend (36);
UPDATE account SET token = 37 WHERE id = 1;
EXECUTE spend (36);
EXECUTE spend (37);
DEALLOCATE spend;

-- The foreign keys' own statements list only the key: they carry a token only through the setting.
CREATE TABLE owner (id int PRIMARY KEY);
CREATE TABLE card (id int PRIMARY KEY, owner int REFERENCES owner ON DELETE CASCADE ON UPDATE CASCADE, token bigint);
CREATE TABLE note (id int PRIMARY KEY, owner int REFERENCES owner ON DELETE SET NULL, token bigint);
INSERT INTO owner VALUES (1), (2), (3);
INSERT INTO card VALUES (1, 1, 34);
INSERT INTO note VALUES (2, 2, 34);
SELECT fencing.protect('card', 'token');
SELECT fencing.protect('note', 'token');
-- Missing: it is the child that says so.
\set VERBOSITY default
DELETE FROM owner WHERE id = 1;
\echo :LAST_ERROR_SQLSTATE
UPDATE owner SET id = 10 WHERE id = 1;
\echo :LAST_ERROR_SQLSTATE
DELETE FROM owner WHERE id = 2;
\echo :LAST_ERROR_SQLSTATE
-- Stale.
BEGIN;
SET LOCAL fencing.token = 33;
DELETE FROM owner WHERE id = 1;
ROLLBACK;
\set VERBOSITY sqlstate
BEGIN;
SET LOCAL fencing.token = 33;
UPDATE owner SET id = 10 WHERE id = 1;
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = 33;
DELETE FROM owner WHERE id = 2;
ROLLBACK;
-- A parent without children is nobody's business.
DELETE FROM owner WHERE id = 3;
-- Valid.
BEGIN;
SET LOCAL fencing.token = 35;
UPDATE owner SET id = 10 WHERE id = 1;
DELETE FROM owner WHERE id = 2;
COMMIT;
SELECT * FROM card ORDER BY id;
SELECT * FROM note ORDER BY id;
BEGIN;
SET LOCAL fencing.token = 35;
DELETE FROM owner WHERE id = 10;
COMMIT;
SELECT * FROM card ORDER BY id;
-- A parent that names its own token says nothing for its children.
CREATE TABLE client (id int PRIMARY KEY, token bigint);
CREATE TABLE letter (client int REFERENCES client ON UPDATE CASCADE, token bigint);
INSERT INTO client VALUES (1, 34);
INSERT INTO letter VALUES (1, 34);
SELECT fencing.protect('client', 'token');
SELECT fencing.protect('letter', 'token');
UPDATE client SET id = 2, token = 34 WHERE id = 1;
BEGIN;
SET LOCAL fencing.token = 34;
UPDATE client SET id = 2 WHERE id = 1;
COMMIT;
SELECT * FROM letter;

-- TRUNCATE takes no token on a table without a resource: refused, with or without the setting.
\set VERBOSITY default
TRUNCATE account;
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
BEGIN;
SET LOCAL fencing.token = 99;
TRUNCATE account;
ROLLBACK;
-- Among others, and by way of a table that is not guarded: it is the guarded one that says so.
CREATE TABLE plain (id int PRIMARY KEY);
INSERT INTO plain VALUES (1);
CREATE TABLE dependent (plain int REFERENCES plain, token bigint);
SELECT fencing.protect('dependent', 'token');
INSERT INTO dependent VALUES (1, 34);
TRUNCATE plain, dependent;
\set VERBOSITY default
SET client_min_messages = warning;
TRUNCATE plain CASCADE;
\echo :LAST_ERROR_SQLSTATE
RESET client_min_messages;
SELECT count(*) FROM plain;
SELECT count(*) FROM dependent;

-- Columns that were dropped, generated or moved do not confuse which one is meant.
CREATE TABLE shifted (gone int, id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED, payload text, token bigint);
ALTER TABLE shifted DROP COLUMN gone;
SELECT fencing.protect('shifted', 'token');
INSERT INTO shifted (id, payload, token) VALUES (1, 'a', 34);
\set VERBOSITY sqlstate
UPDATE shifted SET payload = 'b' WHERE id = 1;
UPDATE shifted SET id = 2 WHERE id = 1;
UPDATE shifted SET payload = 'b', token = 33 WHERE id = 1;
UPDATE shifted SET payload = 'b', token = 34 WHERE id = 1 RETURNING *;
ALTER TABLE shifted DROP COLUMN payload;
ALTER TABLE shifted ADD COLUMN note text;
UPDATE shifted SET note = 'c' WHERE id = 1;
UPDATE shifted SET note = 'c', token = 33 WHERE id = 1;
UPDATE shifted SET note = 'c', token = 35 WHERE id = 1 RETURNING *;

-- A trigger that sorts before the guard and writes the column does not make a payload-only UPDATE carry it.
CREATE FUNCTION raise_token() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN new.token := 99; RETURN new; END $$;
CREATE TRIGGER aa_raise BEFORE UPDATE ON shifted FOR EACH ROW EXECUTE FUNCTION raise_token();
UPDATE shifted SET note = 'd' WHERE id = 1;
-- What it writes into a column that is listed is what is judged and stored.
UPDATE shifted SET note = 'd', token = 35 WHERE id = 1 RETURNING *;
DROP TRIGGER aa_raise ON shifted;
-- A trigger that takes the row away leaves nothing to judge.
CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER aa_skip BEFORE UPDATE ON shifted FOR EACH ROW EXECUTE FUNCTION skip();
UPDATE shifted SET note = 'e' WHERE id = 1;
DROP TRIGGER aa_skip ON shifted;

-- smallint and integer hold tokens from elsewhere; what they cannot hold is an error, not another number.
CREATE TABLE small (id int PRIMARY KEY, token smallint NOT NULL DEFAULT 0);
CREATE TABLE medium (id int PRIMARY KEY, token integer);
SELECT fencing.protect('small', 'token');
SELECT fencing.protect('medium', 'token');
INSERT INTO small VALUES (1, 33);
INSERT INTO medium VALUES (1, 33);
UPDATE small SET token = 32 WHERE id = 1;
UPDATE medium SET token = 32 WHERE id = 1;
UPDATE small SET id = 1 WHERE id = 1;
UPDATE medium SET id = 1 WHERE id = 1;
UPDATE small SET token = -1 WHERE id = 1;
UPDATE medium SET token = -1 WHERE id = 1;
UPDATE small SET token = 34 WHERE id = 1;
UPDATE medium SET token = 34 WHERE id = 1;
BEGIN;
SET LOCAL fencing.token = 32767;
UPDATE small SET id = 1 WHERE id = 1 RETURNING token;
UPDATE medium SET id = 1 WHERE id = 1 RETURNING token;
COMMIT;
BEGIN;
SET LOCAL fencing.token = 2147483647;
UPDATE medium SET id = 1 WHERE id = 1 RETURNING token;
COMMIT;
\set VERBOSITY default
BEGIN;
SET LOCAL fencing.token = 32768;
UPDATE small SET id = 1 WHERE id = 1;
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
\set VERBOSITY sqlstate
BEGIN;
SET LOCAL fencing.token = 2147483648;
UPDATE medium SET id = 1 WHERE id = 1;
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = 2147483648;
INSERT INTO medium VALUES (2);
ROLLBACK;
-- A token that the column could not hold is still good for a DELETE, which stamps nothing.
BEGIN;
SET LOCAL fencing.token = 9223372036854775807;
DELETE FROM small WHERE id = 1 RETURNING token;
ROLLBACK;
SELECT * FROM small;
SELECT * FROM medium;

-- The greatest token there is.
BEGIN;
SET LOCAL fencing.token = 9223372036854775807;
INSERT INTO account VALUES (60, 6000) RETURNING token;
COMMIT;
UPDATE account SET token = 9223372036854775806 WHERE id = 60;
UPDATE account SET token = 9223372036854775807 WHERE id = 60;

-- At REPEATABLE READ and SERIALIZABLE as well.
BEGIN ISOLATION LEVEL REPEATABLE READ;
UPDATE account SET balance = 0, token = 36 WHERE id = 1;
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
UPDATE account SET balance = 0 WHERE id = 1;
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SET LOCAL fencing.token = 38;
UPDATE account SET balance = 1000 WHERE id = 1 RETURNING *;
COMMIT;

-- A refusal ends its statement, not the transaction that catches it, and leaves nothing of itself.
BEGIN;
UPDATE account SET balance = 1001, token = 38 WHERE id = 1;
SAVEPOINT s;
UPDATE account SET balance = 0, token = 37 WHERE id = 1;
ROLLBACK TO s;
UPDATE account SET balance = balance + 1, token = 38 WHERE id = 1;
COMMIT;
SELECT * FROM account WHERE id = 1;

-- Stamping a row leaves its other columns alone, also those that are stored out of line.
CREATE TABLE document (id int PRIMARY KEY, body text, token bigint);
ALTER TABLE document ALTER COLUMN body SET STORAGE EXTERNAL;
SELECT fencing.protect('document', 'token');
BEGIN;
SET LOCAL fencing.token = 34;
INSERT INTO document SELECT 1, string_agg(md5(i::text), '') FROM generate_series(1, 10000) AS i;
COMMIT;
SELECT md5(body) AS before FROM document \gset
BEGIN;
SET LOCAL fencing.token = 35;
UPDATE document SET id = 2;
SELECT md5(body) = :'before' AS unchanged, length(body), token FROM document;
COMMIT;
UPDATE document SET body = '', token = 34;
SELECT md5(body) = :'before' AS unchanged, length(body), token FROM document;

-- A cursor's row.
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM account WHERE id = 1;
FETCH c;
SAVEPOINT s;
UPDATE account SET balance = 0 WHERE CURRENT OF c;
ROLLBACK TO s;
SET LOCAL fencing.token = 37;
UPDATE account SET balance = 0 WHERE CURRENT OF c;
ROLLBACK TO s;
SET LOCAL fencing.token = 38;
UPDATE account SET balance = 1003 WHERE CURRENT OF c;
COMMIT;
SELECT * FROM account WHERE id = 1;

-- Temporary and unlogged tables are tables.
CREATE TEMPORARY TABLE scratch (id int, token bigint);
CREATE UNLOGGED TABLE cache (id int, token bigint);
SELECT fencing.protect('scratch', 'token');
SELECT fencing.protect('cache', 'token');
INSERT INTO scratch VALUES (1, NULL);
INSERT INTO cache VALUES (1, NULL);
INSERT INTO scratch VALUES (1, 34);
INSERT INTO cache VALUES (1, 34);
UPDATE scratch SET token = 33;
UPDATE cache SET token = 33;

-- Without the guard, everything passes.
SELECT fencing.unprotect('account');
UPDATE account SET balance = 0, token = NULL WHERE id = 1 RETURNING *;
TRUNCATE account;

SET client_min_messages = warning;
DROP SCHEMA test_guard CASCADE;
