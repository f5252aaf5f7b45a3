-- The resource fence: a guard that knows to which resource each row belongs, and which writes it takes: with the
-- current token of that resource, with a stale one, with one that was never issued for it, with none (I5, I7, I8).
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
CREATE SCHEMA test_resource_guard;
SET search_path = test_resource_guard;
\set SHOW_CONTEXT never
-- Two jobs. The token of the first was taken over once; that of the second is greater than both.
SELECT token AS stale FROM fencing.acquire('resource_guard/job-1', '1 hour', 'w1') \gset
SELECT token AS valid FROM fencing.acquire('resource_guard/job-1', '1 hour', 'w2', steal => 'always') \gset
SELECT token AS other FROM fencing.acquire('resource_guard/job-2', '1 hour', 'w3') \gset
SELECT :other + 1000000 AS unissued \gset
CREATE TABLE word (token bigint, word text);
INSERT INTO word VALUES (:stale, 'stale'), (:valid, 'valid'), (:other, 'other');
CREATE FUNCTION word(token bigint) RETURNS text STABLE LANGUAGE sql AS
    'SELECT coalesce((SELECT word FROM test_resource_guard.word WHERE word.token = $1), $1::text)';
CREATE TABLE task (id int PRIMARY KEY, job_id int, state text, token bigint);
SELECT fencing.protect('task', 'token', 'resource_guard/job-{job_id}');
SELECT pg_get_triggerdef(oid) FROM pg_catalog.pg_trigger WHERE tgrelid = 'task'::regclass ORDER BY tgname;

-- INSERT, column path.
INSERT INTO task VALUES (1, 1, 'new', :valid), (2, 1, 'new', :valid), (3, 2, 'new', :other);
\set VERBOSITY terse
INSERT INTO task VALUES (4, 1, 'new', :stale);
\echo :LAST_ERROR_SQLSTATE
INSERT INTO task VALUES (4, 1, 'new', :unissued);
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY default
INSERT INTO task VALUES (4, 1, 'new', NULL);
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
INSERT INTO task (id, job_id) VALUES (4, 1);
INSERT INTO task VALUES (4, 1, 'new', 0);
INSERT INTO task VALUES (4, 1, 'new', -1);
-- A token speaks for its own resource only: lower than the other's it is stale, greater it was never issued.
INSERT INTO task VALUES (4, 2, 'new', :valid);
INSERT INTO task VALUES (4, 1, 'new', :other);
-- A resource that nobody was ever granted, and one that differs in its bytes.
INSERT INTO task VALUES (4, 99, 'new', :valid);
INSERT INTO task VALUES (4, -1, 'new', :valid);
-- One bad row, and no row is written (I8).
INSERT INTO task VALUES (4, 1, 'new', :valid), (5, 1, 'new', :stale);
INSERT INTO task VALUES (4, 1, 'new', :valid), (5, 2, 'new', :valid);
SELECT id, job_id, state, word(token) FROM task ORDER BY id;

-- What a refusal says, in full: who lost against what, and where.
CREATE FUNCTION refusal(statement text) RETURNS TABLE (field text, value text) LANGUAGE plpgsql AS $$
DECLARE
    code text; message text; details text; hint text; s text; t text; c text; n text; known record;
BEGIN
    EXECUTE statement;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, details = PG_EXCEPTION_DETAIL,
        hint = PG_EXCEPTION_HINT, s = SCHEMA_NAME, t = TABLE_NAME, c = COLUMN_NAME, n = CONSTRAINT_NAME;
    details = regexp_replace(details, 'at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^"]*\.$', 'at (time).');
    FOR known IN SELECT * FROM word LOOP
        details = replace(details, 'token ' || known.token || ',', 'token (' || known.word || '),');
    END LOOP;
    RETURN QUERY SELECT * FROM unnest(ARRAY['sqlstate', 'message', 'detail', 'hint', 'place'],
        ARRAY[code, message, details, hint, concat_ws(', ', s, t, c, n)]);
END $$;
SELECT * FROM refusal(format('INSERT INTO task VALUES (4, 1, ''new'', %s)', :stale));
-- A lease without a holder's label, and a table without a token column.
SELECT token AS anonymous_1 FROM fencing.acquire('resource_guard/anonymous', '1 hour') \gset
SELECT token AS anonymous_2 FROM fencing.acquire('resource_guard/anonymous', '1 hour', steal => 'always') \gset
CREATE TABLE anonymous (id int);
SELECT fencing.protect('anonymous', resource => 'resource_guard/anonymous');
INSERT INTO word VALUES (:anonymous_1, 'anonymous 1'), (:anonymous_2, 'anonymous 2');
BEGIN;
SET LOCAL fencing.token = :anonymous_1;
SELECT * FROM refusal('INSERT INTO anonymous VALUES (1)');
COMMIT;
-- Released or expired it is as stale as it was: only a greater grant makes it so, and nothing ever undoes that.
SELECT fencing.release('resource_guard/job-1', :valid);
INSERT INTO task VALUES (4, 1, 'released', :valid);
INSERT INTO task VALUES (5, 1, 'released', :stale);
-- A resource that was forgotten is not known any more: a token of it was never issued.
SELECT token AS forgotten FROM fencing.acquire('resource_guard/job-3', '1 hour', 'w1') \gset
INSERT INTO word VALUES (:forgotten, 'forgotten');
INSERT INTO task VALUES (6, 3, 'held', :forgotten);
SELECT fencing.forget('resource_guard/job-3');
UPDATE task SET state = 'forgotten', token = :forgotten WHERE id = 6;

-- INSERT, with the setting and with a binding: the guard writes the token into the row.
BEGIN;
SET LOCAL fencing.token = :valid;
INSERT INTO task VALUES (10, 1, 'setting') RETURNING id, state, word(token);
-- It speaks for every guarded row.
SAVEPOINT here;
INSERT INTO task VALUES (11, 2, 'setting');
ROLLBACK TO here;
COMMIT;
BEGIN;
SELECT fencing.bind('resource_guard/job-1', :valid) \gset
INSERT INTO task VALUES (11, 1, 'bound') RETURNING id, state, word(token);
-- It speaks for its resource.
SAVEPOINT here;
INSERT INTO task VALUES (12, 2, 'bound');
ROLLBACK TO here;
INSERT INTO task VALUES (12, 2, 'bound', :other) RETURNING id, state, word(token);
COMMIT;

-- Which token counts: the binding, else the setting, else the column.
BEGIN;
SELECT fencing.bind('resource_guard/job-1', :valid) \gset
SET LOCAL fencing.token = :other;
UPDATE task SET state = 'bound', token = :stale WHERE id = 1 RETURNING id, state, word(token);
UPDATE task SET state = 'bound', token = NULL WHERE id = 1 RETURNING id, state, word(token);
UPDATE task SET state = 'bound', token = -1 WHERE id = 1 RETURNING id, state, word(token);
UPDATE task SET state = 'setting', token = :valid WHERE id = 3 RETURNING id, state, word(token);
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = :valid;
UPDATE task SET state = 'setting', token = :stale WHERE id = 1 RETURNING id, state, word(token);
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = :stale;
UPDATE task SET state = 'column', token = :valid WHERE id = 1;
ROLLBACK;
-- A setting of 0 or nothing is none.
BEGIN;
SET LOCAL fencing.token = 0;
UPDATE task SET state = 'column', token = :valid WHERE id = 1 RETURNING id, state, word(token);
SET LOCAL fencing.token = '';
UPDATE task SET state = 'column', token = :valid WHERE id = 1 RETURNING id, state, word(token);
UPDATE task SET state = 'none' WHERE id = 1;
ROLLBACK;

-- UPDATE, by each of the three.
UPDATE task SET state = 'column', token = :valid WHERE id = 1 RETURNING id, state, word(token);
UPDATE task SET state = 'column', token = token WHERE id = 1 RETURNING id, state, word(token);
UPDATE task SET state = 'stale', token = :stale WHERE id = 1;
UPDATE task SET state = 'unissued', token = :unissued WHERE id = 1;
UPDATE task SET state = 'missing', token = NULL WHERE id = 1;
\set VERBOSITY default
ALTER TABLE task DISABLE TRIGGER USER;
INSERT INTO task VALUES (20, 1, 'unfenced', NULL);
ALTER TABLE task ENABLE TRIGGER USER;
UPDATE task SET state = 'missing' WHERE id = 20;
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
UPDATE task SET state = 'first', token = :valid WHERE id = 20 RETURNING id, state, word(token);
BEGIN;
SET LOCAL fencing.token = :valid;
UPDATE task SET state = 'setting' WHERE job_id = 1;
COMMIT;
BEGIN;
SET LOCAL fencing.token = :stale;
UPDATE task SET state = 'stale' WHERE id = 1;
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = :unissued;
UPDATE task SET state = 'unissued' WHERE id = 1;
ROLLBACK;
BEGIN;
SELECT fencing.bind('resource_guard/job-1', :valid) \gset
SELECT fencing.bind('resource_guard/job-2', :other) \gset
UPDATE task SET state = 'bound' WHERE job_id IN (1, 2);
COMMIT;
SELECT id, job_id, state, word(token) FROM task ORDER BY id;

-- DELETE names no column.
DELETE FROM task WHERE id = 20 AND token = :valid;
\set VERBOSITY default
ALTER TABLE task DISABLE TRIGGER USER;
INSERT INTO task VALUES (21, 1, 'unfenced', NULL);
ALTER TABLE task ENABLE TRIGGER USER;
DELETE FROM task WHERE id = 21;
\set VERBOSITY sqlstate
BEGIN;
SET LOCAL fencing.token = :stale;
DELETE FROM task WHERE id = 21;
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = :unissued;
DELETE FROM task WHERE id = 21;
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = :valid;
DELETE FROM task WHERE id = 20;
COMMIT;
BEGIN;
SELECT fencing.bind('resource_guard/job-1', :valid) \gset
DELETE FROM task WHERE id = 21;
DELETE FROM task WHERE id = 3;
ROLLBACK;
BEGIN;
SELECT fencing.bind('resource_guard/job-1', :valid) \gset
DELETE FROM task WHERE id = 21;
COMMIT;
SELECT count(*) FROM task WHERE id IN (3, 20, 21);

-- COPY.
BEGIN;
SET LOCAL fencing.token = :valid;
COPY task (id, job_id, state) FROM stdin;
30	1	setting
\.
COPY task FROM stdin;
31	1	setting	12
\.
COMMIT;
BEGIN;
SELECT fencing.bind('resource_guard/job-1', :valid) \gset
COPY task (id, job_id, state) FROM stdin;
32	1	bound
\.
COPY task (id, job_id, state) FROM stdin;
33	1	bound
34	2	missing
\.
ROLLBACK;
COPY task (id, job_id, state) FROM stdin;
33	1	missing
\.
COPY task FROM stdin;
33	99	unissued	1
\.
BEGIN;
SET LOCAL fencing.token = :stale;
COPY task (id, job_id, state) FROM stdin;
33	1	stale
\.
ROLLBACK;
SELECT id, job_id, state, word(token) FROM task WHERE id BETWEEN 30 AND 39 ORDER BY id;

-- ON CONFLICT: the row offered and the row that stands both want a token.
INSERT INTO task VALUES (1, 1, 'offered', :valid)
    ON CONFLICT (id) DO UPDATE SET state = 'upsert', token = excluded.token RETURNING id, state, word(token);
INSERT INTO task VALUES (1, 1, 'offered', :stale)
    ON CONFLICT (id) DO UPDATE SET state = 'upsert', token = excluded.token;
INSERT INTO task VALUES (1, 1, 'offered', :valid) ON CONFLICT (id) DO UPDATE SET state = 'upsert';
INSERT INTO task VALUES (1, 1, 'offered') ON CONFLICT (id) DO UPDATE SET state = 'upsert', token = :valid;
INSERT INTO task VALUES (1, 1, 'offered', :unissued) ON CONFLICT DO NOTHING;
INSERT INTO task VALUES (1, 1, 'offered', :stale) ON CONFLICT DO NOTHING;
INSERT INTO task VALUES (1, 1, 'offered', :valid) ON CONFLICT DO NOTHING;
INSERT INTO task VALUES (40, 1, 'offered', :valid)
    ON CONFLICT (id) DO UPDATE SET state = 'upsert', token = excluded.token RETURNING id, state, word(token);
BEGIN;
SELECT fencing.bind('resource_guard/job-1', :valid) \gset
INSERT INTO task VALUES (1, 1, 'offered'), (41, 1, 'offered')
    ON CONFLICT (id) DO UPDATE SET state = 'upsert' RETURNING id, state, word(token);
-- The row that stands belongs to another resource.
INSERT INTO task VALUES (3, 1, 'offered') ON CONFLICT (id) DO UPDATE SET state = 'upsert';
ROLLBACK;

-- An UPDATE that moves a row from one resource to another needs a valid token for both. One token speaks for one.
INSERT INTO task VALUES (50, 1, 'moving', :valid), (51, 1, 'moving', :valid), (52, 1, 'moving', :valid);
UPDATE task SET job_id = 2, token = :valid WHERE id = 50;
UPDATE task SET job_id = 2, token = :other WHERE id = 50;
UPDATE task SET job_id = 2 WHERE id = 50;
BEGIN;
SET LOCAL fencing.token = :other;
UPDATE task SET job_id = 2 WHERE id = 50;
ROLLBACK;
BEGIN;
SELECT fencing.bind('resource_guard/job-1', :valid) \gset
UPDATE task SET job_id = 2 WHERE id = 50;
ROLLBACK;
BEGIN;
SELECT fencing.bind('resource_guard/job-2', :other) \gset
UPDATE task SET job_id = 2 WHERE id = 50;
ROLLBACK;
-- Bound to the one, while the other is stale, or unknown.
BEGIN;
SELECT fencing.bind('resource_guard/job-2', :other) \gset
SET LOCAL fencing.token = :stale;
UPDATE task SET job_id = 2 WHERE id = 50;
ROLLBACK;
BEGIN;
SELECT fencing.bind('resource_guard/job-1', :valid) \gset
UPDATE task SET job_id = 99, token = :valid WHERE id = 50;
ROLLBACK;
-- Bound to both: the row carries the token of the resource it has moved to.
BEGIN;
SELECT fencing.bind('resource_guard/job-1', :valid) \gset
SELECT fencing.bind('resource_guard/job-2', :other) \gset
UPDATE task SET job_id = 2 WHERE id = 50 RETURNING id, job_id, word(token);
COMMIT;
-- Bound to the one, the setting or the column for the other.
BEGIN;
SELECT fencing.bind('resource_guard/job-1', :valid) \gset
SET LOCAL fencing.token = :other;
UPDATE task SET job_id = 2 WHERE id = 51 RETURNING id, job_id, word(token);
COMMIT;
BEGIN;
SELECT fencing.bind('resource_guard/job-1', :valid) \gset
UPDATE task SET job_id = 2, token = :other WHERE id = 52 RETURNING id, job_id, word(token);
ROLLBACK;
BEGIN;
SELECT fencing.bind('resource_guard/job-2', :other) \gset
UPDATE task SET job_id = 2, token = :valid WHERE id = 52 RETURNING id, job_id, word(token);
ROLLBACK;
-- The row's own token must not fall (I4): on its way back it meets a lower one, and has to wait for a greater.
\set VERBOSITY terse
BEGIN;
SELECT fencing.bind('resource_guard/job-1', :valid) \gset
SELECT fencing.bind('resource_guard/job-2', :other) \gset
UPDATE task SET job_id = 1 WHERE id = 50;
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
\set VERBOSITY sqlstate
SELECT token AS valid FROM fencing.acquire('resource_guard/job-1', '1 hour', 'w4', steal => 'always') \gset
UPDATE word SET word = 'stale' WHERE word = 'valid';
INSERT INTO word VALUES (:valid, 'valid');
BEGIN;
SELECT fencing.bind('resource_guard/job-1', :valid) \gset
SELECT fencing.bind('resource_guard/job-2', :other) \gset
UPDATE task SET job_id = 1 WHERE id = 50 RETURNING id, job_id, word(token);
COMMIT;
-- Other columns that make the same name are no move.
CREATE TABLE pair (a text, b text, token bigint);
SELECT fencing.protect('pair', 'token', 'resource_guard/{a}{b}');
INSERT INTO pair VALUES ('job', '-1', :valid);
UPDATE pair SET a = 'jo', b = 'b-1', token = :valid RETURNING a, b, word(token);

-- A trigger that comes first may set what the resource is made of: the guard judges what it leaves.
CREATE FUNCTION other_job() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN new.job_id = 2; RETURN new; END';
CREATE TRIGGER aa_other_job BEFORE INSERT OR UPDATE ON task FOR EACH ROW EXECUTE FUNCTION other_job();
INSERT INTO task VALUES (60, 1, 'new', :valid);
INSERT INTO task VALUES (60, 1, 'new', :other) RETURNING id, job_id, word(token);
UPDATE task SET state = 'moved', token = :valid WHERE id = 1;
DROP TRIGGER aa_other_job ON task;

-- Without a token column: tokens come from a binding or the setting, and the table stays as it was.
CREATE TABLE plain (id int PRIMARY KEY, job_id int, state text);
INSERT INTO plain VALUES (1, 1, 'old'), (2, 2, 'old');
SELECT fencing.protect('plain', resource => 'resource_guard/job-{job_id}');
SELECT pg_get_triggerdef(oid) FROM pg_catalog.pg_trigger WHERE tgrelid = 'plain'::regclass ORDER BY tgname;
\set VERBOSITY default
INSERT INTO plain VALUES (3, 1, 'missing');
\echo :LAST_ERROR_SQLSTATE
UPDATE plain SET state = 'missing' WHERE id = 1;
DELETE FROM plain WHERE id = 1;
\set VERBOSITY sqlstate
BEGIN;
SET LOCAL fencing.token = :valid;
INSERT INTO plain VALUES (3, 1, 'setting');
UPDATE plain SET state = 'setting' WHERE id = 1;
COPY plain FROM stdin;
4	1	setting
\.
INSERT INTO plain VALUES (4, 1, 'offered') ON CONFLICT (id) DO UPDATE SET state = 'upsert';
DELETE FROM plain WHERE id = 3;
COMMIT;
BEGIN;
SELECT fencing.bind('resource_guard/job-1', :valid) \gset
INSERT INTO plain VALUES (5, 1, 'bound');
UPDATE plain SET state = 'bound' WHERE id = 1;
DELETE FROM plain WHERE id = 4;
SELECT * FROM plain ORDER BY id;
UPDATE plain SET state = 'bound';
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = :stale;
UPDATE plain SET state = 'stale' WHERE id = 1;
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = :stale;
DELETE FROM plain WHERE id = 1;
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = :unissued;
INSERT INTO plain VALUES (6, 1, 'unissued');
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = :stale;
INSERT INTO plain VALUES (6, 1, 'stale');
ROLLBACK;
SELECT * FROM plain ORDER BY id;
-- Both resources of a move, without a column.
BEGIN;
SELECT fencing.bind('resource_guard/job-1', :valid) \gset
UPDATE plain SET job_id = 2 WHERE id = 1;
ROLLBACK;
BEGIN;
SELECT fencing.bind('resource_guard/job-1', :valid) \gset
SELECT fencing.bind('resource_guard/job-2', :other) \gset
UPDATE plain SET job_id = 3 - job_id;
COMMIT;
SELECT * FROM plain ORDER BY id;

-- missing => 'allow': what carries none passes and keeps the row's token; what carries one is judged.
CREATE TABLE lenient (id int PRIMARY KEY, job_id int, token bigint);
SELECT fencing.protect('lenient', 'token', 'resource_guard/job-{job_id}', missing => 'allow');
INSERT INTO lenient VALUES (1, 1, :valid), (2, 99, NULL);
UPDATE lenient SET id = id RETURNING id, job_id, word(token);
UPDATE lenient SET job_id = 99 WHERE id = 1 RETURNING id, job_id, word(token);
UPDATE lenient SET job_id = 1, token = :stale WHERE id = 2;
DELETE FROM lenient;
TRUNCATE lenient;

-- Templates: every type that prints the same everywhere, domains over them, names of all sorts, literal braces.
CREATE TYPE mood AS ENUM ('glad', 'so so');
CREATE DOMAIN name_of_job AS text CHECK (value <> '');
CREATE DOMAIN name_of_great_job AS name_of_job;
CREATE DOMAIN number_of_job AS bigint NOT NULL;
CREATE DOMAIN my_mood AS mood;
CREATE TABLE every (
    small smallint, whole int, big bigint, word text, short varchar(10), id uuid, flag boolean, mood mood,
    named name_of_great_job, numbered number_of_job, my_mood my_mood, "Odd, {Name" int, "odd name" text, "a=b" int);
ALTER TABLE every DROP COLUMN "Odd, {Name";
SELECT fencing.protect('every', resource => 'resource_guard/{small},{whole},{big},{word},{short},{id},{flag},{mood},{named},{numbered},{my_mood},{odd name},{a=b}');
SELECT token AS t FROM fencing.acquire('resource_guard/-32768,-2147483648,-9223372036854775808, wo rd,short,12345678-9abc-def0-1234-56789abcdef0,true,so so,great,9223372036854775807,glad,,0') \gset
BEGIN;
SET LOCAL fencing.token = :t;
INSERT INTO every VALUES (-32768, -2147483648, -9223372036854775808, ' wo rd', 'short', '12345678-9ABC-DEF0-1234-56789ABCDEF0', 'on', 'so so', 'great', 9223372036854775807, 'glad', '', 0);
UPDATE every SET flag = false;
ROLLBACK;
-- Whatever the session prints elsewhere.
BEGIN;
SET LOCAL fencing.token = :t;
SET LOCAL extra_float_digits = -15;
SET LOCAL datestyle = 'SQL, DMY';
SET LOCAL bytea_output = 'escape';
SET LOCAL search_path = '';
INSERT INTO test_resource_guard.every VALUES (-32768, -2147483648, -9223372036854775808, ' wo rd', 'short', '12345678-9ABC-DEF0-1234-56789ABCDEF0', 'on', 'so so', 'great', 9223372036854775807, 'glad', '', 0);
COMMIT;
-- An enum's value that was renamed makes another name.
ALTER TYPE mood RENAME VALUE 'so so' TO 'better';
BEGIN;
SET LOCAL fencing.token = :t;
DELETE FROM every;
ROLLBACK;
-- Booleans print as words, as their cast to text does.
CREATE TABLE flagged (flag boolean);
SELECT fencing.protect('flagged', resource => 'resource_guard/flag-{flag}');
SELECT token AS t FROM fencing.acquire('resource_guard/flag-' || true::text) \gset
SELECT token AS f FROM fencing.acquire('resource_guard/flag-false') \gset
BEGIN;
SELECT fencing.bind('resource_guard/flag-true', :t) \gset
INSERT INTO flagged VALUES (true);
INSERT INTO flagged VALUES (false);
ROLLBACK;
BEGIN;
SELECT fencing.bind('resource_guard/flag-false', :f) \gset
INSERT INTO flagged VALUES (false);
COMMIT;
-- Literal braces, also next to a column; a template that is nothing but a column; the same column twice.
CREATE TABLE braces (a text, b int);
SELECT fencing.protect('braces', resource => 'resource_guard/{{{a}}}{{}}{b}{b}');
SELECT token AS t FROM fencing.acquire('resource_guard/{x}{}77') \gset
BEGIN;
SELECT fencing.bind('resource_guard/{x}{}77', :t) \gset
INSERT INTO braces VALUES ('x', 7);
COMMIT;
SELECT fencing.protect('braces', resource => '{a}');
BEGIN;
SELECT fencing.bind('resource_guard/{x}{}77', :t) \gset
INSERT INTO braces VALUES ('resource_guard/{x}{}77', 7);
-- The other row belongs to the resource "x" now.
UPDATE braces SET b = 8 WHERE a = 'resource_guard/{x}{}77';
UPDATE braces SET b = 8 WHERE a = 'x';
ROLLBACK;
-- Names differ by a byte.
SELECT token AS t FROM fencing.acquire('resource_guard/Case') \gset
BEGIN;
SELECT fencing.bind('resource_guard/Case', :t) \gset
INSERT INTO braces VALUES ('resource_guard/Case');
INSERT INTO braces VALUES ('resource_guard/case');
ROLLBACK;
BEGIN;
SELECT fencing.bind('resource_guard/Case', :t) \gset
INSERT INTO braces VALUES ('resource_guard/Case ');
ROLLBACK;
-- The longest name, one that is stored compressed and one that is stored elsewhere.
CREATE TABLE long (name text, elsewhere text, filling text);
ALTER TABLE long ALTER COLUMN elsewhere SET STORAGE EXTERNAL, ALTER COLUMN filling SET STORAGE PLAIN;
SELECT fencing.protect('long', resource => '{elsewhere}{name}');
SELECT token AS t FROM fencing.acquire(repeat('e', 256) || repeat('c', 256)) \gset
BEGIN;
SET LOCAL fencing.token = :t;
INSERT INTO long VALUES (repeat('c', 256), repeat('e', 256), repeat('f', 3000));
SELECT pg_column_size(name) < 256 AS compressed, pg_relation_size(reltoastrelid) > 0 AS elsewhere
FROM long, pg_catalog.pg_class WHERE oid = 'long'::regclass;
UPDATE long SET name = name;
DELETE FROM long RETURNING length(name || elsewhere);
ROLLBACK;
SELECT fencing.forget(repeat('e', 256) || repeat('c', 256));

-- A table that is one resource.
CREATE TABLE settings (name text PRIMARY KEY, value text, token bigint);
SELECT token AS stale FROM fencing.acquire('resource_guard/settings', '1 hour', 'w1') \gset
SELECT token AS valid FROM fencing.acquire('resource_guard/settings', '1 hour', 'w2', steal => 'always') \gset
SELECT fencing.protect('settings', 'token', 'resource_guard/settings');
INSERT INTO settings VALUES ('a', '1', :valid);
INSERT INTO settings VALUES ('b', '1', :stale);
-- TRUNCATE takes the transaction's token for it: valid, stale, unissued, none.
\set VERBOSITY default
TRUNCATE settings;
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
BEGIN;
SET LOCAL fencing.token = :stale;
TRUNCATE settings;
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = :unissued;
TRUNCATE settings;
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = :valid;
TRUNCATE settings;
SELECT count(*) FROM settings;
ROLLBACK;
BEGIN;
SELECT fencing.bind('resource_guard/settings', :valid) \gset
TRUNCATE settings;
COMMIT;
SELECT count(*) FROM settings;
-- Bound to something else.
SELECT token AS other FROM fencing.acquire('resource_guard/flag-true', steal => 'always') \gset
BEGIN;
SELECT fencing.bind('resource_guard/flag-true', :other) \gset
TRUNCATE settings;
ROLLBACK;
-- Where each row has a resource of its own, no token speaks for all of them.
BEGIN;
SELECT fencing.bind('resource_guard/job-2', token) FROM fencing.lookup('resource_guard/job-2') \gset
\set VERBOSITY default
TRUNCATE plain;
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
\set VERBOSITY sqlstate
-- Several tables, and by way of a foreign key: each of them is asked.
CREATE TABLE detail (name text REFERENCES settings);
SELECT fencing.protect('detail', resource => 'resource_guard/{{detail}}');
SELECT token AS detail FROM fencing.acquire('resource_guard/{detail}') \gset
SET client_min_messages = warning;
BEGIN;
SELECT fencing.bind('resource_guard/settings', :valid) \gset
SAVEPOINT here;
TRUNCATE settings CASCADE;
ROLLBACK TO here;
SELECT fencing.bind('resource_guard/{detail}', :detail) \gset
TRUNCATE settings CASCADE;
TRUNCATE settings, detail;
COMMIT;
RESET client_min_messages;

-- A column that is renamed is not found any more: refused, not passed.
ALTER TABLE flagged RENAME flag TO flagge;
\set VERBOSITY default
BEGIN;
SET LOCAL fencing.token = :f;
INSERT INTO flagged VALUES (false);
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
\set VERBOSITY sqlstate

-- protect changes the template, and unprotect takes all away.
SELECT fencing.protect('flagged', resource => 'resource_guard/flag-{flagge}');
BEGIN;
SET LOCAL fencing.token = :f;
INSERT INTO flagged VALUES (false);
COMMIT;
SELECT fencing.unprotect('flagged');
INSERT INTO flagged VALUES (true), (false);
SELECT tgname FROM pg_catalog.pg_trigger WHERE tgrelid = 'flagged'::regclass;

SET client_min_messages = warning;
DROP SCHEMA test_resource_guard CASCADE;
