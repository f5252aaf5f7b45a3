-- source => 'transaction': only the transaction's token counts, the column is only stamped. For programs that
-- write back every column they have read.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
CREATE SCHEMA test_guard_source;
SET search_path = test_guard_source;
\set SHOW_CONTEXT never
CREATE TABLE account (id int PRIMARY KEY, balance int, token bigint);
SELECT fencing.protect('account', 'token', source => 'transaction');

-- The column carries nothing: neither in INSERT nor COPY nor UPDATE nor an upsert.
INSERT INTO account VALUES (1, 100, 33);
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
COPY account FROM stdin;
1	100	33
\.
BEGIN;
SET LOCAL fencing.token = 33;
INSERT INTO account VALUES (1, 100, NULL) RETURNING *;
COMMIT;
UPDATE account SET balance = 0, token = 34 WHERE id = 1;
UPDATE account SET balance = 0, token = token WHERE id = 1;
INSERT INTO account VALUES (1, 0, 34) ON CONFLICT (id) DO UPDATE SET balance = 0, token = excluded.token;
INSERT INTO account VALUES (1, 0, 34) ON CONFLICT DO NOTHING;

-- What the program writes into it is overwritten: a token read long ago, one from nowhere, none.
BEGIN;
SET LOCAL fencing.token = 34;
UPDATE account SET balance = 101, token = 12 WHERE id = 1 RETURNING *;
UPDATE account SET balance = 102, token = 99 WHERE id = 1 RETURNING *;
UPDATE account SET balance = 103, token = NULL WHERE id = 1 RETURNING *;
UPDATE account SET balance = 104 WHERE id = 1 RETURNING *;
INSERT INTO account VALUES (2, 200, 99) RETURNING *;
INSERT INTO account VALUES (1, 105, 99) ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, token = excluded.token RETURNING *;
COPY account FROM stdin;
3	300	99
\.
COMMIT;
SELECT * FROM account ORDER BY id;

-- Even a number that is no token: it is not looked at.
BEGIN;
SET LOCAL fencing.token = 34;
UPDATE account SET balance = 106, token = -1 WHERE id = 1 RETURNING *;
COMMIT;

-- Stale is stale.
BEGIN;
SET LOCAL fencing.token = 33;
UPDATE account SET balance = 0, token = 99 WHERE id = 1;
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = 33;
DELETE FROM account WHERE id = 1;
ROLLBACK;
SELECT * FROM account ORDER BY id;

-- Made by hand, it is the same.
\set VERBOSITY default
CREATE TABLE ledger (id int PRIMARY KEY, token bigint);
CREATE TRIGGER zz_fencing_guard BEFORE INSERT OR UPDATE OR DELETE ON ledger
    FOR EACH ROW EXECUTE FUNCTION fencing.guard('token', 'source=transaction');
INSERT INTO ledger VALUES (1, 33);
BEGIN;
SET LOCAL fencing.token = 33;
INSERT INTO ledger VALUES (1, 99) RETURNING *;
COMMIT;

-- source => 'any' is the default and can be said.
SELECT fencing.protect('account', 'token', source => 'any');
UPDATE account SET balance = 107, token = 35 WHERE id = 1 RETURNING *;

SET client_min_messages = warning;
DROP SCHEMA test_guard_source CASCADE;
