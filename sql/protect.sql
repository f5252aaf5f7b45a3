-- protect and unprotect: for use in every migration.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
CREATE SCHEMA test_protect;
SET search_path = test_protect;
\set SHOW_CONTEXT never
CREATE TABLE account (id int PRIMARY KEY, balance int, token bigint);
CREATE VIEW guards AS
SELECT t.tgrelid::regclass AS relation, t.tgname, p.proname AS function, t.tgenabled
FROM pg_catalog.pg_trigger AS t JOIN pg_catalog.pg_class AS c ON c.oid = t.tgrelid
    JOIN pg_catalog.pg_proc AS p ON p.oid = t.tgfoid
WHERE c.relnamespace = 'test_protect'::regnamespace AND NOT t.tgisinternal OR t.tgname LIKE 'zz\_fencing%';
-- What stands in the way of others, of the relations that this transaction has locked.
CREATE VIEW heavy AS
SELECT DISTINCT c.relname, l.mode FROM pg_catalog.pg_locks AS l JOIN pg_catalog.pg_class AS c ON c.oid = l.relation
WHERE l.pid = pg_catalog.pg_backend_pid() AND l.locktype = 'relation' AND l.mode <> 'AccessShareLock';

-- Two triggers.
SELECT fencing.protect('account', 'token');
SELECT * FROM guards ORDER BY relation::text, tgname;
SELECT tgname, tgtype = CASE tgname WHEN 'zz_fencing_guard' THEN 1 + 2 + 4 + 8 + 16 ELSE 2 + 32 END AS as_promised
FROM pg_catalog.pg_trigger WHERE tgrelid = 'account'::regclass ORDER BY tgname;

-- Once more changes nothing: the same triggers, and no lock that would hold up anybody.
SELECT array_agg(oid ORDER BY tgname) AS before FROM pg_catalog.pg_trigger WHERE tgrelid = 'account'::regclass \gset
BEGIN;
SELECT fencing.protect('account', 'token');
SELECT fencing.protect('account', token_column => 'token', source => 'any', missing => 'reject', mode => 'enforce', issuer => 'fencing');
SELECT * FROM heavy ORDER BY relname, mode;
COMMIT;
SELECT array_agg(oid ORDER BY tgname) = :'before' AS same FROM pg_catalog.pg_trigger WHERE tgrelid = 'account'::regclass;

-- Other options replace the old ones, one kind after the other.
INSERT INTO account VALUES (1, 100, 34);
SELECT fencing.protect('account', 'token', mode => 'observe');
UPDATE account SET balance = 101, token = 33;
TRUNCATE account;
SELECT fencing.protect('account', 'token', missing => 'allow');
INSERT INTO account VALUES (1, 100, 34);
UPDATE account SET balance = 102 RETURNING token;
TRUNCATE account;
SELECT fencing.protect('account', 'token', source => 'transaction');
\set VERBOSITY sqlstate
INSERT INTO account VALUES (1, 100, 34);
TRUNCATE account;
SELECT fencing.protect('account', 'token');
INSERT INTO account VALUES (1, 100, 34);
UPDATE account SET balance = 103;
-- Another column.
ALTER TABLE account ADD COLUMN other bigint;
SELECT fencing.protect('account', 'other');
UPDATE account SET balance = 104, token = 35;
UPDATE account SET balance = 104, other = 1;
SELECT * FROM account;
SELECT fencing.protect('account', 'token');
SELECT * FROM guards ORDER BY relation::text, tgname;
-- A replacement that is rolled back never was.
BEGIN;
SELECT fencing.protect('account', 'token', missing => 'allow');
UPDATE account SET balance = 105;
ROLLBACK;
UPDATE account SET balance = 105;
BEGIN;
SELECT fencing.unprotect('account');
UPDATE account SET balance = 105;
ROLLBACK;
UPDATE account SET balance = 105;
-- Options and a write in the same transaction.
BEGIN;
SELECT fencing.protect('account', 'token', mode => 'observe');
UPDATE account SET balance = 105;
SELECT fencing.protect('account', 'token');
UPDATE account SET balance = 106;
ROLLBACK;

-- A disabled guard is enabled again.
ALTER TABLE account DISABLE TRIGGER zz_fencing_guard;
ALTER TABLE account DISABLE TRIGGER zz_fencing_guard_truncate;
UPDATE account SET balance = 107;
SELECT * FROM guards ORDER BY relation::text, tgname;
SELECT fencing.protect('account', 'token');
SELECT * FROM guards ORDER BY relation::text, tgname;
UPDATE account SET balance = 108;
-- One that is ENABLE ALWAYS stays so: when nothing changes, and when the options do.
ALTER TABLE account ENABLE ALWAYS TRIGGER zz_fencing_guard;
ALTER TABLE account ENABLE ALWAYS TRIGGER zz_fencing_guard_truncate;
BEGIN;
SELECT fencing.protect('account', 'token');
SELECT * FROM heavy ORDER BY relname, mode;
COMMIT;
SELECT * FROM guards ORDER BY relation::text, tgname;
SELECT fencing.protect('account', 'token', missing => 'allow');
SELECT * FROM guards ORDER BY relation::text, tgname;
SELECT fencing.protect('account', 'token');
SELECT * FROM guards ORDER BY relation::text, tgname;
-- In the replica role only such a guard is there.
SET session_replication_role = replica;
UPDATE account SET balance = 109;
RESET session_replication_role;
ALTER TABLE account ENABLE TRIGGER zz_fencing_guard;
SET session_replication_role = replica;
UPDATE account SET balance = 109 RETURNING balance;
RESET session_replication_role;
-- One of the two is missing or has been tampered with: made good.
DROP TRIGGER zz_fencing_guard_truncate ON account;
SELECT fencing.protect('account', 'token');
SELECT * FROM guards ORDER BY relation::text, tgname;
TRUNCATE account;
DROP TRIGGER zz_fencing_guard ON account;
CREATE TRIGGER zz_fencing_guard BEFORE UPDATE OF token ON account FOR EACH ROW EXECUTE FUNCTION fencing.guard('token');
SELECT fencing.protect('account', 'token');
UPDATE account SET balance = 110;
DELETE FROM account;
DROP TRIGGER zz_fencing_guard ON account;
CREATE TRIGGER zz_fencing_guard BEFORE INSERT OR UPDATE OR DELETE ON account
    FOR EACH ROW WHEN (pg_catalog.pg_trigger_depth() > 5) EXECUTE FUNCTION fencing.guard('token');
SELECT fencing.protect('account', 'token');
UPDATE account SET balance = 110;
-- One that was made by hand, in other words, is as good as one of protect's.
SELECT fencing.unprotect('account');
CREATE TRIGGER zz_fencing_guard BEFORE INSERT OR UPDATE OR DELETE ON account
    FOR EACH ROW EXECUTE FUNCTION fencing.guard('missing=reject', 'token_column=token');
SELECT fencing.protect('account', 'token');
UPDATE account SET balance = 110;
SELECT * FROM guards ORDER BY relation::text, tgname;
\set VERBOSITY default

-- unprotect: both are gone; again, nothing happens.
SELECT fencing.unprotect('account');
SELECT fencing.unprotect('account');
SELECT * FROM guards ORDER BY relation::text, tgname;
UPDATE account SET balance = 111, token = 1 RETURNING *;
BEGIN;
SELECT fencing.unprotect('account');
SELECT * FROM heavy ORDER BY relname, mode;
COMMIT;

-- Names that need quotes, and a column whose name has an equals sign in it.
CREATE SCHEMA "test protect ""2""";
CREATE TABLE "test protect ""2"""."we""ird = 'table'" (id int, "a=b" bigint, "Token ""x"" \ 'y'" bigint, "mode=observe" bigint);
SELECT fencing.protect('"test protect ""2"""."we""ird = ''table''"', 'a=b');
INSERT INTO "test protect ""2"""."we""ird = 'table'" VALUES (1, 34);
UPDATE "test protect ""2"""."we""ird = 'table'" SET id = 2;
UPDATE "test protect ""2"""."we""ird = 'table'" SET id = 2, "a=b" = 33;
TRUNCATE "test protect ""2"""."we""ird = 'table'";
SELECT array_agg(oid ORDER BY tgname) AS before FROM pg_catalog.pg_trigger WHERE tgname LIKE 'zz\_fencing%'
    AND tgrelid = '"test protect ""2"""."we""ird = ''table''"'::regclass \gset
SELECT fencing.protect('"test protect ""2"""."we""ird = ''table''"', 'a=b');
SELECT array_agg(oid ORDER BY tgname) = :'before' AS same FROM pg_catalog.pg_trigger WHERE tgname LIKE 'zz\_fencing%'
    AND tgrelid = '"test protect ""2"""."we""ird = ''table''"'::regclass;
SELECT fencing.protect('"test protect ""2"""."we""ird = ''table''"', 'Token "x" \ ''y''');
INSERT INTO "test protect ""2"""."we""ird = 'table'" VALUES (3, NULL, 34);
UPDATE "test protect ""2"""."we""ird = 'table'" SET "Token ""x"" \ 'y'" = 33;
-- This one looks like an option and is a column.
SELECT fencing.protect('"test protect ""2"""."we""ird = ''table''"', 'mode=observe');
\set VERBOSITY sqlstate
INSERT INTO "test protect ""2"""."we""ird = 'table'" VALUES (4, 34, 34, NULL);
INSERT INTO "test protect ""2"""."we""ird = 'table'" VALUES (4, NULL, NULL, 34);
\set VERBOSITY default
SET client_min_messages = warning;
DROP SCHEMA "test protect ""2""" CASCADE;
RESET client_min_messages;
-- Names of the greatest length.
CREATE TABLE a23456789012345678901234567890123456789012345678901234567890123 (id int, b23456789012345678901234567890123456789012345678901234567890123 bigint);
SELECT fencing.protect('a23456789012345678901234567890123456789012345678901234567890123', 'b23456789012345678901234567890123456789012345678901234567890123');
INSERT INTO a23456789012345678901234567890123456789012345678901234567890123 VALUES (1, NULL);
INSERT INTO a23456789012345678901234567890123456789012345678901234567890123 VALUES (1, 34);
DROP TABLE a23456789012345678901234567890123456789012345678901234567890123;

-- Inheritance children are not covered, and protect says so each time; it guards the parent.
CREATE TABLE parent (id int, token bigint);
CREATE TABLE child () INHERITS (parent);
SELECT fencing.protect('parent', 'token');
SELECT fencing.protect('parent', 'token');
INSERT INTO parent VALUES (1, NULL);
INSERT INTO child VALUES (1, NULL);
SELECT fencing.protect('child', 'token');
INSERT INTO child VALUES (2, NULL);
SELECT fencing.unprotect('parent');
SELECT fencing.unprotect('child');

-- Partitions: the second call finds all of them in order, and takes no lock on any.
CREATE TABLE part (id int, token bigint) PARTITION BY LIST (id);
CREATE TABLE part_1 PARTITION OF part FOR VALUES IN (1);
CREATE TABLE part_2 PARTITION OF part FOR VALUES IN (2) PARTITION BY LIST (id);
CREATE TABLE part_2_1 PARTITION OF part_2 FOR VALUES IN (2);
SELECT fencing.protect('part', 'token');
SELECT * FROM guards ORDER BY relation::text, tgname;
BEGIN;
SELECT fencing.protect('part', 'token');
SELECT * FROM heavy ORDER BY relname, mode;
COMMIT;
-- Other options reach all of them.
SELECT fencing.protect('part', 'token', missing => 'allow');
INSERT INTO part VALUES (1, NULL), (2, NULL);
TRUNCATE part_2_1;
TRUNCATE part;
SELECT fencing.protect('part', 'token');
-- One partition's guard has been disabled, one lacks its TRUNCATE guard.
ALTER TABLE part_1 DISABLE TRIGGER zz_fencing_guard;
DROP TRIGGER zz_fencing_guard_truncate ON part_2_1;
SELECT fencing.protect('part', 'token');
SELECT * FROM guards ORDER BY relation::text, tgname;
-- ENABLE ALWAYS on one partition stays.
ALTER TABLE part_1 ENABLE ALWAYS TRIGGER zz_fencing_guard;
SELECT fencing.protect('part', 'token');
SELECT * FROM guards WHERE relation::text = 'part_1' ORDER BY relation::text, tgname;
SELECT fencing.unprotect('part');
SELECT * FROM guards ORDER BY relation::text, tgname;
-- A partition is protected through its parent: asked for the same, protect agrees, for anything else it
-- says where to go.
SELECT fencing.protect('part', 'token');
SELECT fencing.protect('part_1', 'token');
SELECT fencing.protect('part_1', 'token', mode => 'observe');
\echo :LAST_ERROR_SQLSTATE
SELECT fencing.unprotect('part_1');
\echo :LAST_ERROR_SQLSTATE
SELECT fencing.unprotect('part');
-- One that was protected by itself before follows its parent from then on.
SELECT fencing.protect('part_1', 'token', mode => 'observe');
SELECT fencing.protect('part', 'token');
INSERT INTO part VALUES (1, NULL);
TRUNCATE part_1;
SELECT * FROM guards ORDER BY relation::text, tgname;
SELECT fencing.unprotect('part');
SELECT * FROM guards ORDER BY relation::text, tgname;
-- A foreign partition, which cannot be truncated through a trigger by every server: its rows are guarded.
CREATE FOREIGN DATA WRAPPER regress_fencing_nothing;
CREATE SERVER regress_fencing_nowhere FOREIGN DATA WRAPPER regress_fencing_nothing;
CREATE FOREIGN TABLE part_3 PARTITION OF part FOR VALUES IN (3) SERVER regress_fencing_nowhere;
SET client_min_messages = error;
SELECT fencing.protect('part', 'token');
RESET client_min_messages;
SELECT * FROM guards WHERE tgname = 'zz_fencing_guard' ORDER BY relation::text, tgname;
SELECT * FROM guards WHERE tgname = 'zz_fencing_guard_truncate' AND relation::text <> 'part_3' ORDER BY relation::text, tgname;
SELECT fencing.unprotect('part');
SELECT * FROM guards ORDER BY relation::text, tgname;
SET client_min_messages = warning;
DROP FOREIGN DATA WRAPPER regress_fencing_nothing CASCADE;
RESET client_min_messages;

-- What is no table cannot be protected.
CREATE VIEW seen AS SELECT * FROM account;
CREATE MATERIALIZED VIEW seen_then AS SELECT * FROM account;
CREATE SEQUENCE numbers;
CREATE INDEX account_balance ON account (balance);
SELECT fencing.protect('seen', 'token');
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
SELECT fencing.protect('seen_then', 'token');
SELECT fencing.protect('numbers', 'last_value');
SELECT fencing.protect('account_balance', 'balance');
SELECT fencing.protect('pg_catalog.pg_class', 'relpages');
-- A table without any such column.
CREATE TABLE empty ();
SELECT fencing.protect('empty', 'token');

-- Another trigger has one of our names: it is not ours to replace or drop.
CREATE FUNCTION other_guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN new; END $$;
CREATE TRIGGER zz_fencing_guard BEFORE UPDATE ON account FOR EACH ROW EXECUTE FUNCTION other_guard();
\set VERBOSITY default
SELECT fencing.protect('account', 'token');
\echo :LAST_ERROR_SQLSTATE
SELECT fencing.unprotect('account');
SELECT * FROM guards WHERE relation::text = 'account' ORDER BY relation::text, tgname;
DROP TRIGGER zz_fencing_guard ON account;
CREATE TRIGGER zz_fencing_guard_truncate BEFORE TRUNCATE ON account FOR EACH STATEMENT EXECUTE FUNCTION other_guard();
\set VERBOSITY sqlstate
SELECT fencing.protect('account', 'token');
SELECT fencing.unprotect('account');
SELECT * FROM guards WHERE relation::text = 'account' ORDER BY relation::text, tgname;
DROP TRIGGER zz_fencing_guard_truncate ON account;
-- On one partition: nothing is replaced, and nothing is left half done.
CREATE TRIGGER zz_fencing_guard BEFORE UPDATE ON part_2_1 FOR EACH ROW EXECUTE FUNCTION other_guard();
SELECT fencing.protect('part', 'token');
SELECT fencing.protect('part_2', 'token');
SELECT fencing.unprotect('part');
SELECT * FROM guards ORDER BY relation::text, tgname;
DROP TRIGGER zz_fencing_guard ON part_2_1;
CREATE TRIGGER zz_fencing_guard_truncate BEFORE TRUNCATE ON part_2_1 FOR EACH STATEMENT EXECUTE FUNCTION other_guard();
SELECT fencing.protect('part', 'token');
SELECT * FROM guards ORDER BY relation::text, tgname;
DROP TRIGGER zz_fencing_guard_truncate ON part_2_1;

-- Whose table is it? EXECUTE on protect is not enough.
\set VERBOSITY default
CREATE ROLE regress_fencing_table_owner;
CREATE ROLE regress_fencing_other;
GRANT USAGE ON SCHEMA test_protect TO regress_fencing_table_owner, regress_fencing_other;
GRANT EXECUTE ON FUNCTION fencing.protect, fencing.guard, fencing.guard_truncate TO regress_fencing_table_owner, regress_fencing_other;
CREATE TABLE owned (id int, token bigint);
ALTER TABLE owned OWNER TO regress_fencing_table_owner;
GRANT ALL ON owned TO regress_fencing_other;
SET ROLE regress_fencing_other;
SELECT fencing.protect('owned', 'token');
\echo :LAST_ERROR_SQLSTATE
SELECT fencing.unprotect('owned');
\echo :LAST_ERROR_SQLSTATE
SET ROLE regress_fencing_table_owner;
SELECT fencing.protect('owned', 'token');
SET ROLE regress_fencing_other;
\set VERBOSITY sqlstate
INSERT INTO owned VALUES (1, NULL);
INSERT INTO owned VALUES (1, 34);
-- Not even where nothing would change.
SELECT fencing.protect('owned', 'token');
SELECT fencing.unprotect('owned');
SET ROLE regress_fencing_table_owner;
SELECT fencing.protect('owned', 'token', missing => 'allow');
SELECT fencing.unprotect('owned');
RESET ROLE;
SELECT * FROM guards WHERE relation::text = 'owned' ORDER BY relation::text, tgname;

SET client_min_messages = warning;
DROP SCHEMA test_protect CASCADE;
DROP OWNED BY regress_fencing_table_owner, regress_fencing_other;
DROP ROLE regress_fencing_table_owner, regress_fencing_other;
