-- What a driver finds in an error of ours: SQLSTATE, message, DETAIL, HINT, and the names of schema, table,
-- column and constraint (the trigger) (I8). None of the codes is in a class that drivers retry.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
CREATE SCHEMA test_errors;
SET search_path = test_errors;
CREATE TABLE account (id int PRIMARY KEY, balance int, token bigint);
INSERT INTO account VALUES (1, 100, 34);
SELECT fencing.protect('account', 'token');
CREATE FUNCTION fields_of(statement text) RETURNS TABLE (field text, value text) LANGUAGE plpgsql AS $$
DECLARE
    state text; message text; detail text; hint text;
    schema_name text; table_name text; column_name text; constraint_name text; datatype_name text;
BEGIN
    EXECUTE statement;
    RAISE EXCEPTION 'no error';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
        hint = PG_EXCEPTION_HINT, schema_name = SCHEMA_NAME, table_name = TABLE_NAME, column_name = COLUMN_NAME,
        constraint_name = CONSTRAINT_NAME, datatype_name = PG_DATATYPE_NAME;
    RETURN QUERY VALUES ('SQLSTATE', state), ('message', message), ('detail', detail), ('hint', hint),
        ('schema', schema_name), ('table', table_name), ('column', column_name), ('constraint', constraint_name);
END $$;
\pset format unaligned
\pset tuples_only on

-- A stale UPDATE, with the column.
SELECT * FROM fields_of('UPDATE account SET balance = 0, token = 33');
-- A stale UPDATE, DELETE and upsert, with the setting.
BEGIN;
SET LOCAL fencing.token = 33;
SELECT * FROM fields_of('UPDATE account SET balance = 0');
SELECT * FROM fields_of('DELETE FROM account');
SELECT * FROM fields_of('INSERT INTO account VALUES (1, 0) ON CONFLICT (id) DO UPDATE SET balance = 0');
COMMIT;
-- A write without a token: each kind.
SELECT * FROM fields_of('UPDATE account SET balance = 0');
SELECT * FROM fields_of('INSERT INTO account VALUES (2, 0)');
SELECT * FROM fields_of('DELETE FROM account');
SELECT * FROM fields_of('TRUNCATE account');
-- The same after a SET in a transaction that is over.
SET fencing.token = 34;
SELECT * FROM fields_of('UPDATE account SET balance = 0');
RESET fencing.token;
-- And where only the transaction's token counts.
SELECT fencing.protect('account', 'token', source => 'transaction');
SELECT * FROM fields_of('UPDATE account SET balance = 0, token = 34');
SELECT fencing.protect('account', 'token');

-- It is the partition that is named.
CREATE TABLE job (id int, state text, token bigint) PARTITION BY LIST (state);
CREATE TABLE job_open PARTITION OF job FOR VALUES IN ('open');
CREATE TABLE job_done PARTITION OF job FOR VALUES IN ('done');
INSERT INTO job VALUES (1, 'open', 34);
SELECT fencing.protect('job', 'token');
SELECT * FROM fields_of('UPDATE job SET state = ''done'', token = 33');

-- And the child of a foreign key, whoever touched the parent.
CREATE TABLE owner (id int PRIMARY KEY);
CREATE TABLE card (id int, owner int REFERENCES owner ON DELETE CASCADE, token bigint);
INSERT INTO owner VALUES (1);
INSERT INTO card VALUES (1, 1, 34);
SELECT fencing.protect('card', 'token');
SELECT * FROM fields_of('DELETE FROM owner');

-- A trigger under another name is named as it is.
CREATE TABLE ledger (id int, token bigint);
INSERT INTO ledger VALUES (1, 34);
CREATE TRIGGER zzz_my_own BEFORE INSERT OR UPDATE OR DELETE ON ledger FOR EACH ROW EXECUTE FUNCTION fencing.guard('token');
SELECT * FROM fields_of('UPDATE ledger SET token = 33');

-- Names that need quotes come as they are.
CREATE TABLE "we""ird" (id int, "to ken" bigint);
INSERT INTO "we""ird" VALUES (1, 34);
SELECT fencing.protect('"we""ird"', 'to ken');
SELECT * FROM fields_of('UPDATE "we""ird" SET "to ken" = 33');

-- A negative token, in the column and in the setting.
SELECT * FROM fields_of('UPDATE account SET token = -1');
SELECT * FROM fields_of('SET LOCAL fencing.token = -1');

-- A lower advance of a resource.
SELECT fencing.advance('errors/a', 34);
SELECT * FROM fields_of('SELECT fencing.advance(''errors/a'', 33)');
-- A resource with the other issuer.
SELECT * FROM fields_of('SELECT fencing.acquire(''errors/a'')');
SELECT resource FROM fencing.acquire('errors/b');
SELECT * FROM fields_of('SELECT fencing.advance(''errors/b'', 34)');
-- A name that is too long is not repeated.
SELECT * FROM fields_of('SELECT fencing.lookup(repeat(''x'', 10000))');

-- What the server has to say keeps its own code: here a timeout in the middle of a wait.
SET statement_timeout = '200ms';
SELECT count(*) FROM fencing.acquire('errors/b', wait => '30 seconds');
\echo :LAST_ERROR_SQLSTATE
RESET statement_timeout;
SELECT count(*) FROM fencing.acquire('errors/c', wait => '1 second');

-- In psql's own variables.
\pset tuples_only off
\pset format aligned
UPDATE account SET balance = 0, token = 33;
\echo :LAST_ERROR_SQLSTATE :LAST_ERROR_MESSAGE
SELECT * FROM account;

SET client_min_messages = warning;
DROP SCHEMA test_errors CASCADE;
