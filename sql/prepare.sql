-- PREPARE TRANSACTION: not after anything that holds a resource. (Needs max_prepared_transactions above 0.)
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
CREATE SCHEMA test_prepare;
SET search_path = test_prepare;
CREATE TABLE account (id int PRIMARY KEY, balance int, token bigint);
INSERT INTO account VALUES (1, 100, 34);
SELECT fencing.protect('account', 'token');
SELECT token AS t FROM fencing.acquire('prepare/standing', '10 minutes', 'w1') \gset
SELECT fencing.advance('prepare/elsewhere', 34);

-- After a grant.
BEGIN;
SELECT resource FROM fencing.acquire('prepare/a');
PREPARE TRANSACTION 'regress_fencing';
\echo :LAST_ERROR_SQLSTATE
-- It has failed as a whole: nothing was granted, and nothing is in the way of the next.
SELECT count(*) FROM fencing.lookup('prepare/a');
SELECT resource FROM fencing.acquire('prepare/a');
\set VERBOSITY sqlstate
-- After each of the others.
BEGIN;
SELECT fencing.renew('prepare/standing', :t) IS NOT NULL AS renewed;
PREPARE TRANSACTION 'regress_fencing';
BEGIN;
SELECT fencing.release('prepare/standing', :t);
PREPARE TRANSACTION 'regress_fencing';
BEGIN;
SELECT fencing.advance('prepare/elsewhere', 35);
PREPARE TRANSACTION 'regress_fencing';
BEGIN;
SELECT fencing.forget('prepare/elsewhere');
PREPARE TRANSACTION 'regress_fencing';
BEGIN;
SELECT fencing.prune('9 years');
PREPARE TRANSACTION 'regress_fencing';
-- Also when they had no effect.
BEGIN;
SELECT count(*) FROM fencing.acquire('prepare/standing');
PREPARE TRANSACTION 'regress_fencing';
BEGIN;
SELECT fencing.renew('prepare/standing', :t + 1) IS NULL AS lost;
PREPARE TRANSACTION 'regress_fencing';
BEGIN;
SELECT fencing.release('prepare/standing', :t + 1);
PREPARE TRANSACTION 'regress_fencing';
BEGIN;
SELECT fencing.forget('prepare/nobody');
PREPARE TRANSACTION 'regress_fencing';
-- In a savepoint that was released; what follows does not wash it off.
BEGIN;
SAVEPOINT s;
SELECT resource FROM fencing.acquire('prepare/b');
RELEASE s;
SELECT 1 AS one;
PREPARE TRANSACTION 'regress_fencing';
BEGIN;
SELECT resource FROM fencing.acquire('prepare/b');
SAVEPOINT s;
SELECT resource FROM fencing.acquire('prepare/c');
ROLLBACK TO s;
PREPARE TRANSACTION 'regress_fencing';
-- Nothing of all this has stayed.
\set VERBOSITY default
SELECT count(*) FROM pg_catalog.pg_prepared_xacts WHERE gid = 'regress_fencing';
SELECT token = :t AS stands FROM fencing.lookup('prepare/standing');
SELECT * FROM fencing.lookup('prepare/elsewhere');
SELECT count(*) FROM fencing.lookup('prepare/b');

-- A savepoint that is rolled back takes its grant along: no reason to refuse any more.
BEGIN;
SAVEPOINT s;
SELECT resource FROM fencing.acquire('prepare/d');
ROLLBACK TO s;
PREPARE TRANSACTION 'regress_fencing';
COMMIT PREPARED 'regress_fencing';

-- Looking, drawing and guarded writes can be prepared.
BEGIN;
SELECT resource FROM fencing.lookup('prepare/standing');
SELECT fencing.next_token() > 0 AS drawn;
SET LOCAL fencing.token = 35;
UPDATE account SET balance = 101;
PREPARE TRANSACTION 'regress_fencing';
COMMIT PREPARED 'regress_fencing';
SELECT * FROM account;
BEGIN;
UPDATE account SET balance = 0, token = 36;
PREPARE TRANSACTION 'regress_fencing';
ROLLBACK PREPARED 'regress_fencing';
SELECT * FROM account;
-- The token of a prepared transaction does not speak for the next one.
BEGIN;
SET fencing.token = 36;
UPDATE account SET balance = 102;
PREPARE TRANSACTION 'regress_fencing';
COMMIT PREPARED 'regress_fencing';
UPDATE account SET balance = 0;
SELECT * FROM account;
RESET fencing.token;

-- The next transaction of the session is free again.
BEGIN;
SELECT resource FROM fencing.acquire('prepare/e');
COMMIT;
BEGIN;
INSERT INTO account VALUES (2, 200, 34);
PREPARE TRANSACTION 'regress_fencing';
COMMIT PREPARED 'regress_fencing';
SELECT * FROM account ORDER BY id;

SET client_min_messages = warning;
DROP SCHEMA test_prepare CASCADE;
