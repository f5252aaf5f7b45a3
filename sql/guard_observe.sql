-- Observing: what would be refused is a WARNING of the same kind, and passes. By the trigger's mode or by the
-- setting fencing.enforcement; the weaker of the two wins.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
CREATE SCHEMA test_guard_observe;
SET search_path = test_guard_observe;
\set SHOW_CONTEXT never
CREATE TABLE account (id int PRIMARY KEY, balance int, token bigint);
SELECT fencing.protect('account', 'token', mode => 'observe');

-- What is in order is silent.
INSERT INTO account VALUES (1, 100, 34);
UPDATE account SET balance = 101, token = 34 WHERE id = 1;

-- Stale: the token presented is written, even a lower one.
UPDATE account SET balance = 102, token = 33 WHERE id = 1 RETURNING *;
-- Missing: the row keeps its token.
UPDATE account SET balance = 103 WHERE id = 1 RETURNING *;
\set VERBOSITY sqlstate
UPDATE account SET balance = 104, token = NULL WHERE id = 1 RETURNING *;
UPDATE account SET balance = 105, token = 0 WHERE id = 1 RETURNING *;
INSERT INTO account (id, balance) VALUES (2, 200) RETURNING *;
COPY account (id, balance) FROM stdin;
3	300
\.
BEGIN;
SET LOCAL fencing.token = 32;
UPDATE account SET balance = 106 WHERE id = 1 RETURNING *;
COMMIT;
INSERT INTO account VALUES (1, 107, 31) ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, token = excluded.token RETURNING *;
-- One WARNING for each row.
UPDATE account SET balance = 0 WHERE id IN (1, 2, 3);
-- DELETE and TRUNCATE.
DELETE FROM account WHERE id = 2;
BEGIN;
SET LOCAL fencing.token = 30;
DELETE FROM account WHERE id = 1;
ROLLBACK;
\set VERBOSITY default
BEGIN;
TRUNCATE account;
SELECT count(*) FROM account;
ROLLBACK;
SELECT * FROM account ORDER BY id;

-- fencing.enforcement = observe: the same for every guarded table, whatever its own mode.
SELECT fencing.protect('account', 'token', mode => 'enforce');
\set VERBOSITY sqlstate
UPDATE account SET balance = 0, token = 30 WHERE id = 1;
SET fencing.enforcement = 'observe';
UPDATE account SET balance = 108, token = 30 WHERE id = 1 RETURNING *;
UPDATE account SET balance = 109 WHERE id = 1 RETURNING *;
TRUNCATE account;
RESET fencing.enforcement;
INSERT INTO account VALUES (1, 100, 34);
UPDATE account SET balance = 0 WHERE id = 1;

-- It is no way around a fence that is raised otherwise: the functions go on refusing.
SET fencing.enforcement = 'observe';
SELECT fencing.advance('observe/a', 34);
SELECT fencing.advance('observe/a', 33);
RESET fencing.enforcement;

-- fencing.enforcement = off: the guard does nothing, it does not even stamp.
SET fencing.enforcement = 'off';
UPDATE account SET balance = 110, token = 33 WHERE id = 1 RETURNING *;
UPDATE account SET balance = 111 WHERE id = 1 RETURNING *;
UPDATE account SET balance = 112, token = NULL WHERE id = 1 RETURNING *;
BEGIN;
SET LOCAL fencing.token = 99;
UPDATE account SET balance = 113 WHERE id = 1 RETURNING *;
INSERT INTO account VALUES (4, 400) RETURNING *;
COMMIT;
DELETE FROM account WHERE id = 4;
TRUNCATE account;
RESET fencing.enforcement;

-- The weaker wins: off over a trigger that observes, a trigger that observes over enforce.
SELECT fencing.protect('account', 'token', mode => 'observe');
INSERT INTO account VALUES (1, 100, 34);
SET fencing.enforcement = 'off';
UPDATE account SET balance = 114 WHERE id = 1;
SET fencing.enforcement = 'enforce';
UPDATE account SET balance = 115 WHERE id = 1;
RESET fencing.enforcement;

-- Only for one transaction.
SELECT fencing.protect('account', 'token');
BEGIN;
SET LOCAL fencing.enforcement = 'off';
UPDATE account SET balance = 116 WHERE id = 1;
COMMIT;
UPDATE account SET balance = 117 WHERE id = 1;

-- Observing does not warn of what is allowed.
SELECT fencing.protect('account', 'token', mode => 'observe', missing => 'allow');
UPDATE account SET balance = 118 WHERE id = 1 RETURNING *;
UPDATE account SET balance = 119, token = 33 WHERE id = 1 RETURNING *;

-- Only three words, and only by a superuser or who was granted it.
\set VERBOSITY default
SET fencing.enforcement = 'perhaps';
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
SELECT fencing.protect('account', 'token');
CREATE ROLE regress_fencing_observer;
GRANT USAGE ON SCHEMA test_guard_observe TO regress_fencing_observer;
GRANT ALL ON account TO regress_fencing_observer;
SET SESSION AUTHORIZATION regress_fencing_observer;
SET fencing.enforcement = 'off';
SET fencing.durable_grants = off;
UPDATE account SET balance = 120 WHERE id = 1;
RESET SESSION AUTHORIZATION;
GRANT SET ON PARAMETER fencing.enforcement TO regress_fencing_observer;
SET SESSION AUTHORIZATION regress_fencing_observer;
SET fencing.enforcement = 'off';
SET fencing.durable_grants = off;
UPDATE account SET balance = 120 WHERE id = 1;
RESET fencing.enforcement;
UPDATE account SET balance = 121 WHERE id = 1;
RESET SESSION AUTHORIZATION;
REVOKE SET ON PARAMETER fencing.enforcement FROM regress_fencing_observer;

DROP SCHEMA test_guard_observe CASCADE;
DROP ROLE regress_fencing_observer;
