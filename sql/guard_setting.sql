-- fencing.token counts only in the transaction that set it: nothing leaks to the next client of a pooled
-- connection, and no default of a role, a database or a connection speaks for a transaction. In a database of
-- its own, because it gets such a default.
SELECT current_database() AS home \gset
CREATE DATABASE regress_fencing_setting;
\c regress_fencing_setting
CREATE EXTENSION fencing;
CREATE TABLE account (id int PRIMARY KEY, balance int, token bigint);
INSERT INTO account VALUES (1, 100, 33);
SELECT fencing.protect('account', 'token');

-- SET LOCAL, SET and set_config inside a transaction.
BEGIN;
SET LOCAL fencing.token = 33;
UPDATE account SET balance = 101 RETURNING *;
COMMIT;
BEGIN;
SET fencing.token = 34;
UPDATE account SET balance = 102 RETURNING *;
COMMIT;
-- What SET has left behind is still to be seen, and does not count; the HINT says what does.
SHOW fencing.token;
UPDATE account SET balance = 0;
\echo :LAST_ERROR_SQLSTATE
BEGIN;
SELECT set_config('fencing.token', '34', true);
UPDATE account SET balance = 103 RETURNING *;
COMMIT;

-- SET in autocommit is a transaction of its own.
SET fencing.token = 35;
UPDATE account SET balance = 0;
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
SELECT set_config('fencing.token', '35', false);
UPDATE account SET balance = 0;
BEGIN;
UPDATE account SET balance = 0;
ROLLBACK;
-- It may be said again with the same value, and counts then.
BEGIN;
SET LOCAL fencing.token = 35;
UPDATE account SET balance = 104 RETURNING *;
COMMIT;
UPDATE account SET balance = 0;
-- One statement in autocommit can bring its token along.
UPDATE account SET balance = 105 FROM set_config('fencing.token', '36', true) RETURNING account.*;
UPDATE account SET balance = 0;
-- Statements sent together are one transaction.
SET LOCAL fencing.token = 36\; UPDATE account SET balance = 106;
UPDATE account SET balance = 0;

-- ROLLBACK.
BEGIN;
SET fencing.token = 37;
ROLLBACK;
UPDATE account SET balance = 0;
BEGIN;
UPDATE account SET balance = 0;
ROLLBACK;
-- COMMIT AND CHAIN and ROLLBACK AND CHAIN begin another transaction.
BEGIN;
SET fencing.token = 37;
UPDATE account SET balance = 107;
COMMIT AND CHAIN;
UPDATE account SET balance = 0;
ROLLBACK AND CHAIN;
SET LOCAL fencing.token = 37;
UPDATE account SET balance = 108;
COMMIT;
-- So does COMMIT in a procedure.
DO $$
BEGIN
    PERFORM set_config('fencing.token', '38', false);
    UPDATE account SET balance = 109;
    COMMIT;
    UPDATE account SET balance = 0;
END $$;
SELECT * FROM account;

-- Savepoints: what is rolled back no longer counts, what is released does.
RESET fencing.token;
BEGIN;
SAVEPOINT s;
SET LOCAL fencing.token = 39;
RELEASE s;
UPDATE account SET balance = 110 RETURNING *;
COMMIT;
BEGIN;
SAVEPOINT s;
SET LOCAL fencing.token = 40;
ROLLBACK TO s;
UPDATE account SET balance = 0;
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = 39;
SAVEPOINT s;
SET LOCAL fencing.token = 40;
UPDATE account SET balance = 0 RETURNING token;
ROLLBACK TO s;
UPDATE account SET balance = 111 RETURNING *;
COMMIT;
-- Under a savepoint that is rolled back lies a value of an older transaction: it does not count.
SET fencing.token = 50;
BEGIN;
SAVEPOINT s;
SET LOCAL fencing.token = 39;
ROLLBACK TO s;
SHOW fencing.token;
UPDATE account SET balance = 0;
ROLLBACK;
-- Nor when the savepoints are nested.
BEGIN;
SAVEPOINT s1;
SAVEPOINT s2;
SET fencing.token = 39;
RELEASE s2;
ROLLBACK TO s1;
UPDATE account SET balance = 0;
ROLLBACK;
-- It does count where this transaction had set one before.
BEGIN;
SET fencing.token = 39;
SAVEPOINT s1;
SET LOCAL fencing.token = 60;
SAVEPOINT s2;
SET LOCAL fencing.token = '';
ROLLBACK TO s1;
UPDATE account SET balance = 112 RETURNING *;
COMMIT;

-- A block with EXCEPTION is a savepoint.
BEGIN;
DO $$
BEGIN
    PERFORM set_config('fencing.token', '60', true);
    RAISE EXCEPTION 'lost';
EXCEPTION WHEN raise_exception THEN
    NULL;
END $$;
UPDATE account SET balance = 0;
ROLLBACK;

-- A function's SET clause counts inside the function and nowhere else.
CREATE FUNCTION spend(new_balance int) RETURNS SETOF account LANGUAGE sql SET fencing.token = '39'
    AS $$ UPDATE account SET balance = new_balance RETURNING * $$;
SELECT * FROM spend(113);
UPDATE account SET balance = 0;
BEGIN;
SELECT * FROM spend(114);
UPDATE account SET balance = 0;
ROLLBACK;
-- After it the value of this transaction counts again ...
BEGIN;
SET LOCAL fencing.token = 41;
SELECT token FROM spend(115);
UPDATE account SET balance = 116 RETURNING *;
ROLLBACK;
-- ... and one of an older transaction does not.
SET fencing.token = 70;
BEGIN;
SELECT token FROM spend(117);
UPDATE account SET balance = 0;
ROLLBACK;
-- Neither when the function fails.
CREATE FUNCTION broken() RETURNS int LANGUAGE plpgsql SET fencing.token = '41' AS $$ BEGIN RETURN 1 / 0; END $$;
BEGIN;
SAVEPOINT s;
SELECT broken();
ROLLBACK TO s;
UPDATE account SET balance = 0;
ROLLBACK;
-- A function that takes the token away, and one that sets it in its body.
CREATE FUNCTION unfenced() RETURNS SETOF account LANGUAGE sql SET fencing.token = ''
    AS $$ UPDATE account SET balance = 0 RETURNING * $$;
BEGIN;
SET LOCAL fencing.token = 41;
SELECT * FROM unfenced();
ROLLBACK;
CREATE FUNCTION carry(token text) RETURNS text LANGUAGE sql AS $$ SELECT set_config('fencing.token', token, true) $$;
BEGIN;
SELECT carry('41');
UPDATE account SET balance = 118 RETURNING *;
COMMIT;

-- Empty, 0, RESET and DEFAULT mean none.
BEGIN;
SET LOCAL fencing.token = 41;
SET LOCAL fencing.token = '';
UPDATE account SET balance = 0;
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = 41;
SET LOCAL fencing.token = 0;
UPDATE account SET balance = 0;
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = 41;
RESET fencing.token;
UPDATE account SET balance = 0;
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = 41;
SET LOCAL fencing.token TO DEFAULT;
UPDATE account SET balance = 0;
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = 41;
RESET ALL;
UPDATE account SET balance = 0;
ROLLBACK;
SET fencing.token = 41;
DISCARD ALL;
SHOW fencing.token;

-- It speaks for every guarded row of the transaction, in every table.
CREATE TABLE ledger (id int, token bigint);
SELECT fencing.protect('ledger', 'token');
BEGIN;
SET LOCAL fencing.token = 42;
UPDATE account SET balance = 119 RETURNING *;
INSERT INTO ledger VALUES (1) RETURNING *;
COMMIT;
-- It may change on the way.
BEGIN;
SET LOCAL fencing.token = 43;
INSERT INTO ledger VALUES (2) RETURNING *;
SET LOCAL fencing.token = 44;
INSERT INTO ledger VALUES (3) RETURNING *;
SET LOCAL fencing.token = 41;
INSERT INTO ledger VALUES (4) RETURNING *;
UPDATE account SET balance = 0;
ROLLBACK;

-- What is no token is no value.
\set VERBOSITY default
SET fencing.token = 'abc';
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
SET fencing.token = -1;
SET fencing.token = '1.5';
SET fencing.token = '34x';
SET fencing.token = '34 35';
SET fencing.token = '9223372036854775808';
SET fencing.token = '99999999999999999999999999';
SET fencing.token = '1e3';
BEGIN;
SET LOCAL fencing.token = 41;
SELECT set_config('fencing.token', 'abc', true);
UPDATE account SET balance = 0;
ROLLBACK;

-- A new session, in which nothing of the extension has been called yet: the library is loaded by the first
-- guarded write and finds what was set before. An older transaction's value does not count.
\c
\set VERBOSITY sqlstate
SET fencing.token = 99;
UPDATE account SET balance = 0;
-- The same with a transaction block around the first write.
\c
SET fencing.token = 99;
BEGIN;
UPDATE account SET balance = 0;
ROLLBACK;
-- With something of this transaction that was rolled back.
\c
SET fencing.token = 99;
BEGIN;
SAVEPOINT s;
SET LOCAL fencing.token = 43;
ROLLBACK TO s;
UPDATE account SET balance = 0;
ROLLBACK;
\c
SET fencing.token = 99;
BEGIN;
SET LOCAL fencing.token = 43;
ROLLBACK;
UPDATE account SET balance = 0;
\c
BEGIN;
SET fencing.token = 99;
COMMIT;
UPDATE account SET balance = 0;
-- What this very transaction has set counts, although the library came later.
\c
BEGIN;
SET LOCAL fencing.token = 43;
UPDATE account SET balance = 120 RETURNING *;
COMMIT;
UPDATE account SET balance = 0;
\c
SET fencing.token = 99;
BEGIN;
SET LOCAL fencing.token = 43;
UPDATE account SET balance = 121 RETURNING *;
COMMIT;
UPDATE account SET balance = 0;
\c
BEGIN;
SET fencing.token = 44;
SAVEPOINT s;
UPDATE account SET balance = 122 RETURNING *;
ROLLBACK TO s;
UPDATE account SET balance = 122 RETURNING *;
COMMIT;
UPDATE account SET balance = 0;
-- Under it lies an older value that comes back with ROLLBACK TO.
\c
SET fencing.token = 99;
BEGIN;
SAVEPOINT s;
SET LOCAL fencing.token = 44;
UPDATE account SET balance = 123 RETURNING *;
ROLLBACK TO s;
UPDATE account SET balance = 0;
ROLLBACK;
-- A function's SET clause counts in such a session as well (39 is stale by now, 99 would not be).
\c
SET fencing.token = 99;
SELECT token FROM spend(124);
BEGIN;
UPDATE account SET balance = 124 FROM set_config('fencing.token', '44', true) RETURNING account.*;
COMMIT;
UPDATE account SET balance = 0;
-- Loaded by something else first: no difference.
\c
SET fencing.token = 99;
SELECT count(*) FROM fencing.lookup('setting/nothing');
UPDATE account SET balance = 0;
-- What is no token is said and dropped when the library comes.
\c
\set VERBOSITY default
SET fencing.token = 'abc';
SELECT count(*) FROM fencing.lookup('setting/nothing');
SHOW fencing.token;
\set VERBOSITY sqlstate

-- A default of the role in this database never counts, nor one of the database, nor one of the connection.
ALTER ROLE CURRENT_USER IN DATABASE regress_fencing_setting SET fencing.token = '99';
\c
SHOW fencing.token;
UPDATE account SET balance = 0;
BEGIN;
UPDATE account SET balance = 0;
ROLLBACK;
-- Neither when the transaction goes back to it.
BEGIN;
SET LOCAL fencing.token = 44;
UPDATE account SET balance = 125 RETURNING *;
RESET fencing.token;
SHOW fencing.token;
UPDATE account SET balance = 0;
ROLLBACK;
BEGIN;
SET LOCAL fencing.token TO DEFAULT;
UPDATE account SET balance = 0;
ROLLBACK;
ALTER ROLE CURRENT_USER IN DATABASE regress_fencing_setting RESET fencing.token;
ALTER DATABASE regress_fencing_setting SET fencing.token = '99';
\c
BEGIN;
UPDATE account SET balance = 0;
ROLLBACK;
ALTER DATABASE regress_fencing_setting RESET fencing.token;
\c -reuse-previous=on "options='-c fencing.token=99'"
SHOW fencing.token;
UPDATE account SET balance = 0;
BEGIN;
UPDATE account SET balance = 0;
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = 44;
UPDATE account SET balance = 126 RETURNING *;
COMMIT;
\c -reuse-previous=on "options=''"

\c :home
DROP DATABASE regress_fencing_setting;
