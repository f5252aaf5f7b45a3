-- Partitions: one guard for all of them, and rows that move between them (I4, I7).
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
CREATE SCHEMA test_guard_partition;
SET search_path = test_guard_partition;
\set SHOW_CONTEXT never
CREATE TABLE job (id int, state text, payload text, token bigint) PARTITION BY LIST (state);
CREATE TABLE job_open PARTITION OF job FOR VALUES IN ('open');
-- Its columns stand in another order, with a hole.
CREATE TABLE job_done (token bigint, gone int, payload text, id int, state text);
ALTER TABLE job_done DROP COLUMN gone;
ALTER TABLE job ATTACH PARTITION job_done FOR VALUES IN ('done');
-- One that is partitioned itself.
CREATE TABLE job_late PARTITION OF job FOR VALUES IN ('late', 'lost') PARTITION BY LIST (state);
CREATE TABLE job_late_1 PARTITION OF job_late FOR VALUES IN ('late');
CREATE TABLE job_late_2 PARTITION OF job_late FOR VALUES IN ('lost');
SELECT fencing.protect('job', 'token');

-- Both triggers stand on every one of them.
CREATE VIEW guards AS
SELECT t.tgrelid::regclass AS relation, t.tgname, t.tgenabled, t.tgparentid <> 0 AS cloned
FROM pg_catalog.pg_trigger AS t JOIN pg_catalog.pg_class AS c ON c.oid = t.tgrelid
WHERE c.relnamespace = 'test_guard_partition'::regnamespace AND t.tgname LIKE 'zz\_fencing%';
SELECT * FROM guards ORDER BY relation::text, tgname;

-- Writes that stay where they are, by way of the root and directly.
INSERT INTO job VALUES (1, 'open', 'a', 33), (2, 'open', 'b', 33), (3, 'done', 'c', 33), (4, 'late', 'd', 33);
\set VERBOSITY sqlstate
INSERT INTO job VALUES (5, 'done', 'e', NULL);
INSERT INTO job_done (id, state) VALUES (5, 'done');
UPDATE job SET payload = 'A', token = 34 WHERE id IN (1, 3, 4);
UPDATE job SET payload = 'z', token = 33 WHERE id = 3;
UPDATE job SET payload = 'z' WHERE id = 3;
UPDATE job_done SET payload = 'z', token = 33 WHERE id = 3;
UPDATE job_done SET payload = 'z' WHERE id = 3;
UPDATE job_done SET payload = 'C', token = 34 WHERE id = 3;
UPDATE job_late_1 SET payload = 'z' WHERE id = 4;
DELETE FROM job WHERE id = 3;
COPY job FROM stdin;
6	done	f	33
\.
COPY job (id, state, payload) FROM stdin;
7	done	g
\.
SELECT tableoid::regclass AS partition, id, state, payload, token FROM job ORDER BY id;

-- A move, column path: valid, stale, missing, and "none".
UPDATE job SET state = 'done', token = 35 WHERE id = 1 RETURNING tableoid::regclass AS partition, id, token;
UPDATE job SET state = 'open', token = 34 WHERE id = 1;
UPDATE job SET state = 'open' WHERE id = 1;
UPDATE job SET state = 'open', token = NULL WHERE id = 1;
UPDATE job SET state = 'open', token = 0 WHERE id = 1;
UPDATE job SET state = 'open', token = -1 WHERE id = 1;
SELECT tableoid::regclass AS partition, id, state, payload, token FROM job WHERE id = 1;
UPDATE job SET state = 'open', token = 35 WHERE id = 1 RETURNING tableoid::regclass AS partition, id, token;

-- A move, setting path.
BEGIN;
SET LOCAL fencing.token = 36;
UPDATE job SET state = 'done' WHERE id = 1 RETURNING tableoid::regclass AS partition, id, token;
COMMIT;
BEGIN;
SET LOCAL fencing.token = 35;
UPDATE job SET state = 'open' WHERE id = 1;
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = 37;
UPDATE job SET state = 'open', token = 12 WHERE id = 1 RETURNING tableoid::regclass AS partition, id, token;
COMMIT;

-- Down the tree and up again, and all rows at once.
UPDATE job SET state = 'lost', token = 37 WHERE id = 1 RETURNING tableoid::regclass AS partition, id, token;
UPDATE job SET state = 'late', token = 38 WHERE id = 1 RETURNING tableoid::regclass AS partition, id, token;
UPDATE job_late SET state = 'lost', token = 38 WHERE id = 1 RETURNING tableoid::regclass AS partition, id, token;
UPDATE job_late SET state = 'late' WHERE id = 1;
BEGIN;
SET LOCAL fencing.token = 38;
UPDATE job SET state = CASE state WHEN 'open' THEN 'done' WHEN 'done' THEN 'late' WHEN 'late' THEN 'lost' ELSE 'open' END;
SELECT tableoid::regclass AS partition, id, state, payload, token FROM job ORDER BY id;
COMMIT;
-- One stale row among those that move, and none has moved (I8).
UPDATE job SET token = 40, state = state WHERE id = 2;
UPDATE job SET token = 39, state = 'lost';
SELECT tableoid::regclass AS partition, id, state, payload, token FROM job ORDER BY id;

-- The legs of a move are let through for the row that moves, and for no other: here the DELETE leg makes a
-- trigger delete another row of the same partition, without a token.
CREATE FUNCTION delete_another() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM job_done WHERE id <> old.id;
    RETURN old;
END $$;
UPDATE job SET token = 40, state = 'done';
CREATE TRIGGER aa_another BEFORE DELETE ON job_done FOR EACH ROW WHEN (old.id = 1) EXECUTE FUNCTION delete_another();
UPDATE job SET state = 'open', token = 40 WHERE id = 1;
BEGIN;
SET LOCAL fencing.token = 40;
UPDATE job SET state = 'open' WHERE id = 1;
SELECT tableoid::regclass AS partition, id, state, token FROM job ORDER BY id;
ROLLBACK;
DROP TRIGGER aa_another ON job_done;
-- And here the INSERT leg makes a trigger insert another row without a token.
CREATE FUNCTION insert_another() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO job_open (id, state) VALUES (new.id + 100, 'open');
    RETURN new;
END $$;
CREATE TRIGGER aa_another BEFORE INSERT ON job_open FOR EACH ROW WHEN (new.id < 100) EXECUTE FUNCTION insert_another();
UPDATE job SET state = 'open', token = 40 WHERE id = 1;
DROP TRIGGER aa_another ON job_open;

-- Guarded writes in between, in a table of their own and in the same one, do not make the guard forget the row.
CREATE TABLE audit (id serial, what text, token bigint);
SELECT fencing.protect('audit', 'token');
CREATE FUNCTION write_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit (what, token) VALUES (tg_op, 1);
    UPDATE audit SET what = what || ' on ' || tg_table_name, token = 1 WHERE what = tg_op;
    IF tg_op <> 'INSERT' AND tg_when = 'BEFORE' THEN
        -- a move of its own inside the move
        UPDATE job SET state = 'lost', token = 41 WHERE id = 2 AND state <> 'lost';
    END IF;
    IF tg_op = 'DELETE' THEN
        RETURN old;
    END IF;
    RETURN new;
END $$;
CREATE TRIGGER aa_audit BEFORE INSERT OR UPDATE OR DELETE ON job_done FOR EACH ROW WHEN (pg_trigger_depth() < 1) EXECUTE FUNCTION write_audit();
CREATE TRIGGER aa_audit BEFORE INSERT OR UPDATE OR DELETE ON job_open FOR EACH ROW WHEN (pg_trigger_depth() < 1) EXECUTE FUNCTION write_audit();
CREATE TRIGGER zzz_audit AFTER INSERT OR UPDATE OR DELETE ON job_open FOR EACH ROW EXECUTE FUNCTION write_audit();
UPDATE job SET state = 'open', token = 41 WHERE id = 1 RETURNING tableoid::regclass AS partition, id, token;
BEGIN;
SET LOCAL fencing.token = 42;
UPDATE job SET state = 'done' WHERE id = 1 RETURNING tableoid::regclass AS partition, id, token;
COMMIT;
-- What they write is judged nevertheless.
UPDATE job SET state = 'open', token = 41 WHERE id = 1;
UPDATE job SET state = 'open' WHERE id = 1;
SELECT tableoid::regclass AS partition, id, state, token FROM job ORDER BY id;
SELECT what, token, count(*) FROM audit GROUP BY what, token ORDER BY what, token;
DROP TRIGGER aa_audit ON job_done;
DROP TRIGGER aa_audit ON job_open;
DROP TRIGGER zzz_audit ON job_open;
-- A nested write that carries none, in the middle of a valid move.
CREATE FUNCTION write_unfenced() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE audit SET what = 'unfenced';
    RETURN old;
END $$;
CREATE TRIGGER aa_unfenced BEFORE DELETE ON job_done FOR EACH ROW EXECUTE FUNCTION write_unfenced();
UPDATE job SET state = 'open', token = 42 WHERE id = 1;
DROP TRIGGER aa_unfenced ON job_done;

-- A move that breaks off leaves no permit behind: an error in the middle of it ...
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'broken off'; END $$;
CREATE TRIGGER aa_fail BEFORE DELETE ON job_done FOR EACH ROW WHEN (pg_trigger_depth() < 1) EXECUTE FUNCTION fail();
BEGIN;
SAVEPOINT s;
UPDATE job SET state = 'open', token = 42 WHERE id = 1;
ROLLBACK TO s;
ALTER TABLE job_done DISABLE TRIGGER aa_fail;
DELETE FROM job_done WHERE id = 1;
ROLLBACK;
DROP TRIGGER aa_fail ON job_done;
-- ... an error that is caught, all in one statement ...
CREATE FUNCTION move_and_delete() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    BEGIN
        UPDATE job SET state = 'open', token = 42 WHERE id = 1;
        RAISE EXCEPTION 'broken off';
    EXCEPTION WHEN raise_exception THEN
        NULL;
    END;
    BEGIN
        DELETE FROM job WHERE id = 1;
        RETURN 'deleted';
    EXCEPTION WHEN SQLSTATE 'TK002' THEN
        RETURN 'refused';
    END;
END $$;
SELECT move_and_delete();
-- ... or a trigger that keeps the row where it is.
CREATE FUNCTION stay() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER aa_stay BEFORE DELETE ON job_done FOR EACH ROW EXECUTE FUNCTION stay();
BEGIN;
UPDATE job SET state = 'open', token = 42 WHERE id = 1;
DROP TRIGGER aa_stay ON job_done;
DELETE FROM job_done WHERE id = 1;
ROLLBACK;
DROP TRIGGER aa_stay ON job_done;
-- Nor does a move that has taken place: the next INSERT and DELETE are judged by themselves.
BEGIN;
UPDATE job SET state = 'open', token = 42 WHERE id = 1;
SAVEPOINT s;
INSERT INTO job_open (id, state) VALUES (1, 'open');
ROLLBACK TO s;
DELETE FROM job_open WHERE id = 1;
ROLLBACK;

-- source => 'transaction': the legs keep the token that the transaction carries.
SELECT fencing.protect('job', 'token', source => 'transaction');
UPDATE job SET state = 'open', token = 42 WHERE id = 1;
BEGIN;
SET LOCAL fencing.token = 43;
UPDATE job SET state = 'open', token = 12 WHERE id = 1 RETURNING tableoid::regclass AS partition, id, token;
COMMIT;
BEGIN;
SET LOCAL fencing.token = 42;
UPDATE job SET state = 'done' WHERE id = 1;
ROLLBACK;

-- missing => 'allow': a move keeps the row's token (I4).
SELECT fencing.protect('job', 'token', missing => 'allow');
UPDATE job SET state = 'done' WHERE id = 1 RETURNING tableoid::regclass AS partition, id, token;
UPDATE job SET state = 'open', token = NULL WHERE id = 1 RETURNING tableoid::regclass AS partition, id, token;
UPDATE job SET state = 'late', token = 42 WHERE id = 1;
SELECT fencing.protect('job', 'token', source => 'transaction', missing => 'allow');
UPDATE job SET state = 'done' WHERE id = 1 RETURNING tableoid::regclass AS partition, id, token;
UPDATE job SET state = 'late', token = 99 WHERE id = 1 RETURNING tableoid::regclass AS partition, id, token;

-- mode => 'observe': one WARNING for a move, which passes.
SELECT fencing.protect('job', 'token', mode => 'observe');
UPDATE job SET state = 'done', token = 42 WHERE id = 1 RETURNING tableoid::regclass AS partition, id, token;
UPDATE job SET state = 'open' WHERE id = 1 RETURNING tableoid::regclass AS partition, id, token;
BEGIN;
SET LOCAL fencing.token = 40;
UPDATE job SET state = 'done' WHERE id = 1 RETURNING tableoid::regclass AS partition, id, token;
COMMIT;
SELECT fencing.protect('job', 'token');

-- TRUNCATE of the root, of a branch and of a leaf.
TRUNCATE job;
TRUNCATE job_late;
TRUNCATE job_done;
SELECT count(*) > 0 AS still_there FROM job;

-- A partition that comes later has the row guard at once, and the other after the next protect.
CREATE TABLE job_new PARTITION OF job FOR VALUES IN ('new');
CREATE TABLE job_old (LIKE job_done);
ALTER TABLE job ATTACH PARTITION job_old FOR VALUES IN ('old');
INSERT INTO job VALUES (8, 'new', 'h', NULL);
INSERT INTO job VALUES (8, 'old', 'h', NULL);
INSERT INTO job VALUES (8, 'new', 'h', 34);
UPDATE job SET state = 'old' WHERE id = 8;
UPDATE job SET state = 'old', token = 34 WHERE id = 8 RETURNING tableoid::regclass AS partition, id, token;
SELECT * FROM guards WHERE relation::text IN ('job_new', 'job_old') ORDER BY relation::text, tgname;
BEGIN;
TRUNCATE job_old;
ROLLBACK;
SELECT fencing.protect('job', 'token');
SELECT * FROM guards WHERE relation::text IN ('job_new', 'job_old') ORDER BY relation::text, tgname;
TRUNCATE job_old;

-- A partition that goes is an ordinary table again: DETACH takes the row guard off, as it does with every
-- trigger of the parent.
ALTER TABLE job DETACH PARTITION job_old;
UPDATE job_old SET payload = 'free' RETURNING id, payload, token;
SELECT fencing.unprotect('job_old');

-- An upsert by way of the root.
CREATE TABLE stock (id int, kind text, amount int, token bigint, PRIMARY KEY (kind, id)) PARTITION BY LIST (kind);
CREATE TABLE stock_1 PARTITION OF stock FOR VALUES IN ('a');
CREATE TABLE stock_2 (token bigint, amount int, kind text NOT NULL, id int NOT NULL);
ALTER TABLE stock ATTACH PARTITION stock_2 FOR VALUES IN ('b');
SELECT fencing.protect('stock', 'token');
INSERT INTO stock VALUES (1, 'b', 10, 34) ON CONFLICT (kind, id) DO UPDATE SET amount = excluded.amount, token = excluded.token;
INSERT INTO stock VALUES (1, 'b', 0, 33) ON CONFLICT (kind, id) DO UPDATE SET amount = excluded.amount, token = excluded.token;
INSERT INTO stock VALUES (1, 'b', 0, 34) ON CONFLICT (kind, id) DO UPDATE SET amount = excluded.amount;
INSERT INTO stock VALUES (1, 'b', 11, 35) ON CONFLICT (kind, id) DO UPDATE SET amount = excluded.amount, token = excluded.token;
BEGIN;
SET LOCAL fencing.token = 36;
INSERT INTO stock VALUES (1, 'b', 12, 99), (2, 'a', 20, NULL) ON CONFLICT (kind, id) DO UPDATE SET amount = excluded.amount;
COMMIT;
SELECT tableoid::regclass AS partition, * FROM stock ORDER BY id;

-- A move and another write in one statement: each is judged by itself.
UPDATE job SET state = 'done', token = 43 WHERE id = 1;
WITH moved AS (UPDATE job SET state = 'open', token = 43 WHERE id = 1 RETURNING id)
DELETE FROM job WHERE id = 3;
WITH moved AS (UPDATE job SET state = 'open', token = 43 WHERE id = 1 RETURNING id)
INSERT INTO job (id, state) SELECT id + 100, 'open' FROM moved;
WITH moved AS (UPDATE job SET state = 'open', token = 43 WHERE id = 1 RETURNING id)
INSERT INTO job (id, state, token) SELECT id + 100, 'open', 1 FROM moved;
SELECT tableoid::regclass AS partition, id, state, token FROM job WHERE id IN (1, 3, 101) ORDER BY id;

-- A key of a foreign key moves the child's row to another partition.
CREATE TABLE region (name text PRIMARY KEY);
CREATE TABLE shop (id int, region text REFERENCES region ON UPDATE CASCADE, token bigint) PARTITION BY LIST (region);
CREATE TABLE shop_north PARTITION OF shop FOR VALUES IN ('north');
CREATE TABLE shop_south PARTITION OF shop FOR VALUES IN ('south');
INSERT INTO region VALUES ('north');
INSERT INTO shop VALUES (1, 'north', 34);
SELECT fencing.protect('shop', 'token');
UPDATE region SET name = 'south';
BEGIN;
SET LOCAL fencing.token = 33;
UPDATE region SET name = 'south';
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = 35;
UPDATE region SET name = 'south';
COMMIT;
SELECT tableoid::regclass AS partition, * FROM shop;

-- unprotect takes all of them away.
SELECT fencing.unprotect('job');
SELECT fencing.unprotect('shop');
SELECT fencing.unprotect('stock');
SELECT fencing.unprotect('audit');
SELECT * FROM guards ORDER BY relation::text, tgname;

SET client_min_messages = warning;
DROP SCHEMA test_guard_partition CASCADE;
