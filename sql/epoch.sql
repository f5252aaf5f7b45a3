-- epoch: a change of the database's identity ends every tenure, and later tokens lie beyond (I1, I5). In a database of
-- its own, since an epoch ends every lease of the database. (Promotion, restore and upgrade are in test/t.)
\set home :DBNAME
CREATE DATABASE regress_fencing_epoch;
\c regress_fencing_epoch
SET client_min_messages = warning;
CREATE EXTENSION fencing;
RESET client_min_messages;
\set SHOW_CONTEXT never
CREATE VIEW epoch AS SELECT last_value >> 40 AS of_sequence, last_value & ((1::bigint << 40) - 1) AS number FROM fencing.token_seq;
-- Timeline 1: the lead is -1, and tokens are 1, 2, 3.
SELECT (last_value & ((1 << 24) - 1)) - (1 << 23) AS lead, last_value > 1 << 24 AS has_identity FROM fencing.origin_seq;
SELECT fencing.next_token(), fencing.next_token();
CREATE TABLE task (id int PRIMARY KEY, state text, token bigint);
SELECT fencing.protect('task', 'token', 'job-{id}');
CREATE TABLE account (id int PRIMARY KEY, balance int, token bigint);
SELECT fencing.protect('account', 'token');
CREATE TABLE outside (id int PRIMARY KEY, token bigint);
SELECT fencing.protect('outside', 'token', 'outside-{id}', issuer => 'external');
SELECT token AS old FROM fencing.acquire('job-1', '1 hour', 'w1') \gset
INSERT INTO task VALUES (1, 'old', :old);
INSERT INTO account VALUES (1, 100, :old);
INSERT INTO outside VALUES (1, 7);

-- fast_forward within the epoch ends nothing, past its end everything.
SELECT fencing.fast_forward(1000);
SELECT fencing.renew('job-1', :old) IS NOT NULL AS renewed;
SELECT fencing.fast_forward((5::bigint << 40) + 10);
SELECT (last_value & ((1 << 24) - 1)) - (1 << 23) AS lead FROM fencing.origin_seq;
-- The fence stands, the lease is over: the current token is stale, and not the only one.
SELECT resource, token = :old AS fence, holder, ttl, acquired_at, expires_at FROM fencing.lookup('job-1');
SELECT fencing.renew('job-1', :old) IS NULL AS lost;
SELECT fencing.release('job-1', :old);
\set VERBOSITY terse
SELECT fencing.bind('job-1', :old);
UPDATE task SET state = 'stale', token = :old WHERE id = 1;
\set VERBOSITY default
-- Lost with the WAL that was not received, for all that the database knows: a token of that epoch for a resource unknown.
SELECT fencing.bind('job-2', 3);
\set VERBOSITY terse
SELECT fencing.bind('job-2', (5::bigint << 40) + 1);
-- Row fences and tokens from elsewhere know no epoch.
UPDATE account SET balance = 101, token = :old WHERE id = 1;
UPDATE outside SET token = 8 WHERE id = 1;
SELECT fencing.bind('outside-1', 8);
SELECT fencing.advance('outside-1', 9);
-- The lease is free at once, and its token is of the new epoch.
SELECT token >> 40 AS epoch, token & ((1::bigint << 40) - 1) AS number, token AS new FROM fencing.acquire('job-1', '1 hour', 'w2') \gset
\echo :epoch :number
UPDATE task SET state = 'new', token = :new WHERE id = 1;
SELECT holder FROM fencing.lookup('job-1');
SELECT fencing.release('job-1', :new);

-- A transaction that is bound when the epoch ends cannot commit; its ROLLBACK undoes no epoch.
SELECT token AS bound FROM fencing.acquire('job-1', '1 hour', 'w3') \gset
BEGIN;
SELECT fencing.bind('job-1', :bound) = :bound AS bound;
INSERT INTO account VALUES (2, 1, :bound);
SELECT fencing.fast_forward(6::bigint << 40) >> 40 AS exceeds;
COMMIT;
SELECT id FROM account;
SELECT * FROM epoch;
-- At the end of an epoch the next begins.
SELECT fencing.fast_forward((7::bigint << 40) - 2) >> 40 AS epoch;
SELECT token >> 40 AS epoch, token AS last FROM fencing.acquire('job-1', '1 hour', 'w4') \gset
\echo :epoch
SELECT fencing.next_token() - :last AS further;
SELECT fencing.renew('job-1', :last) IS NULL AS lost;
SELECT * FROM epoch;
-- A fence beyond the sequence, set by hand: the grant enters its epoch.
UPDATE fencing.fence SET token = (9::bigint << 40) + 5 WHERE resource = 'job-1';
SELECT (token >> 40) || ':' || (token & ((1::bigint << 40) - 1)) AS token FROM fencing.acquire('job-1', '1 hour', 'w5', steal => 'always');
-- A sequence set by hand beyond the record, and back: the epoch never goes down.
SELECT setval('fencing.token_seq', (11::bigint << 40) + 5) >> 40 AS epoch;
SELECT (t >> 40) || ':' || (t & ((1::bigint << 40) - 1)) AS token FROM fencing.next_token() AS t;
SELECT setval('fencing.token_seq', 5);
SELECT (t >> 40) || ':' || (t & ((1::bigint << 40) - 1)) AS token FROM fencing.next_token() AS t;
\c
SELECT (t >> 40) || ':' || (t & ((1::bigint << 40) - 1)) AS token FROM fencing.next_token() AS t;

-- Another identity: 64 epochs and a timeline further than where the sequence stands. ROLLBACK undoes nothing of it.
SELECT last_value AS record FROM fencing.origin_seq \gset
SELECT setval('fencing.origin_seq', :record # (1::bigint << 24)) <> :record AS another;
\c
BEGIN;
SELECT (t >> 40) || ':' || (t & ((1::bigint << 40) - 1)) AS token FROM fencing.next_token() AS t;
ROLLBACK;
SELECT (last_value & ((1 << 24) - 1)) - (1 << 23) AS lead, last_value >> 24 = :record >> 24 AS same_identity FROM fencing.origin_seq;
SELECT (t >> 40) || ':' || (t & ((1::bigint << 40) - 1)) AS token FROM fencing.next_token() AS t;
-- An epoch that the sequence cannot reach.
ALTER SEQUENCE fencing.token_seq MAXVALUE 90000000000000;
\set VERBOSITY default
SELECT setval('fencing.origin_seq', :record # (1::bigint << 24)) <> :record AS another;
\c
SELECT fencing.next_token();
ALTER SEQUENCE fencing.token_seq NO MAXVALUE;
SELECT (t >> 40) || ':' || (t & ((1::bigint << 40) - 1)) AS token FROM fencing.next_token() AS t;

\c :home
DROP DATABASE regress_fencing_epoch;
