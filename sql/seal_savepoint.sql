-- The seal and savepoints: what counts at COMMIT is what has been bound or written and not rolled back. Each case
-- raises the fence to 40 itself before it commits, so that it fails exactly if something is left that counts.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
CREATE SCHEMA test_seal_savepoint;
SET search_path = test_seal_savepoint;
\set SHOW_CONTEXT never
\set VERBOSITY sqlstate
CREATE TABLE task (id int, token bigint);
SELECT fencing.protect('task', 'token', 'seal_savepoint/{id}', issuer => 'external');
CREATE FUNCTION bound() RETURNS text LANGUAGE sql AS
    $$SELECT coalesce(string_agg(substr(resource, 16) || ': ' || token, ', '), 'none') FROM fencing.bound()$$;
CREATE FUNCTION raise(id int, token bigint DEFAULT 40) RETURNS bigint LANGUAGE sql AS
    $$SELECT fencing.advance('seal_savepoint/' || id, token)$$;
CREATE FUNCTION fence(id int) RETURNS bigint LANGUAGE sql AS
    $$SELECT token FROM fencing.lookup('seal_savepoint/' || id)$$;
SELECT count(fencing.advance('seal_savepoint/' || n, 33)) FROM generate_series(1, 40) AS n;

-- Without a savepoint, bound or written: counts.
BEGIN;
SELECT fencing.bind('seal_savepoint/1', 33) \gset
SELECT raise(1) \gset
COMMIT;
BEGIN;
INSERT INTO task VALUES (1, 33);
SELECT raise(1) \gset
COMMIT;
SELECT fence(1);

-- Rolled back: does not count.
BEGIN;
SAVEPOINT a;
SELECT fencing.bind('seal_savepoint/2', 33) \gset
ROLLBACK TO a;
SELECT bound();
SELECT raise(2) \gset
COMMIT;
SELECT fence(2);
BEGIN;
SAVEPOINT a;
INSERT INTO task VALUES (3, 33);
ROLLBACK TO a;
SELECT raise(3) \gset
COMMIT;
SELECT fence(3);

-- Bound again after the rollback: counts.
BEGIN;
SAVEPOINT a;
SELECT fencing.bind('seal_savepoint/4', 33) \gset
ROLLBACK TO a;
SELECT fencing.bind('seal_savepoint/4', 33) \gset
SELECT bound();
SELECT raise(4) \gset
COMMIT;
BEGIN;
SAVEPOINT a;
INSERT INTO task VALUES (4, 33);
ROLLBACK TO a;
INSERT INTO task VALUES (4, 33);
SELECT raise(4) \gset
COMMIT;
-- Also after the savepoint itself is gone, or when another has taken its place.
BEGIN;
SAVEPOINT a;
SELECT fencing.bind('seal_savepoint/4', 33) \gset
ROLLBACK TO a;
RELEASE a;
SELECT fencing.bind('seal_savepoint/4', 33) \gset
SELECT raise(4) \gset
COMMIT;
BEGIN;
SAVEPOINT a;
SELECT fencing.bind('seal_savepoint/4', 33) \gset
ROLLBACK TO a;
SAVEPOINT b;
SELECT fencing.bind('seal_savepoint/4', 33) \gset
RELEASE b;
SELECT raise(4) \gset
COMMIT;
SELECT fence(4);

-- Released: counts, at every depth.
BEGIN;
SAVEPOINT a;
SELECT fencing.bind('seal_savepoint/5', 33) \gset
RELEASE a;
SELECT bound();
SELECT raise(5) \gset
COMMIT;
BEGIN;
SAVEPOINT a;
SAVEPOINT b;
SAVEPOINT c;
INSERT INTO task VALUES (5, 33);
RELEASE b;
RELEASE a;
SELECT raise(5) \gset
COMMIT;
-- Still open at COMMIT.
BEGIN;
SAVEPOINT a;
SAVEPOINT b;
INSERT INTO task VALUES (5, 33);
SELECT raise(5) \gset
COMMIT;
SELECT fence(5);
-- Released into one that is rolled back: does not.
BEGIN;
SAVEPOINT a;
SAVEPOINT b;
SELECT fencing.bind('seal_savepoint/6', 33) \gset
INSERT INTO task VALUES (6, 33);
RELEASE b;
SELECT bound();
ROLLBACK TO a;
SELECT bound();
SELECT raise(6) \gset
COMMIT;
SELECT fence(6);

-- ... also when that one has claimed something of its own.
BEGIN;
SAVEPOINT a;
SELECT fencing.bind('seal_savepoint/24', 33) \gset
SAVEPOINT b;
SELECT fencing.bind('seal_savepoint/25', 33) \gset
INSERT INTO task VALUES (26, 33);
RELEASE b;
SELECT bound();
ROLLBACK TO a;
SELECT bound();
SELECT raise(24), raise(25), raise(26) \gset
COMMIT;
SELECT fence(24), fence(25), fence(26);

-- What was there before the savepoint stays, whatever happens in it.
BEGIN;
SELECT fencing.bind('seal_savepoint/7', 33) \gset
SAVEPOINT a;
SELECT fencing.bind('seal_savepoint/7', 34) \gset
SELECT bound();
ROLLBACK TO a;
SELECT bound();
SELECT raise(7, 34) \gset
COMMIT;
SELECT fence(7);
BEGIN;
INSERT INTO task VALUES (7, 33);
SAVEPOINT a;
INSERT INTO task VALUES (7, 34);
ROLLBACK TO a;
SELECT raise(7, 34) \gset
COMMIT;
SELECT fence(7);
-- The same token again in the savepoint is no second one that could go.
BEGIN;
SELECT fencing.bind('seal_savepoint/7', 33) \gset
SAVEPOINT a;
SELECT fencing.bind('seal_savepoint/7', 33) \gset
INSERT INTO task VALUES (7, 33);
ROLLBACK TO a;
SELECT bound();
SELECT raise(7) \gset
COMMIT;
SELECT fence(7);

-- 33, then 34 in a savepoint that is rolled back, then 33: the fence ends at 33; it fails if the fence is raised.
BEGIN;
INSERT INTO task VALUES (8, 33);
SAVEPOINT a;
INSERT INTO task VALUES (8, 34);
ROLLBACK TO a;
INSERT INTO task VALUES (8, 33);
COMMIT;
SELECT fence(8);
BEGIN;
INSERT INTO task VALUES (8, 33);
SAVEPOINT a;
INSERT INTO task VALUES (8, 34);
ROLLBACK TO a;
INSERT INTO task VALUES (8, 33);
SELECT raise(8, 34) \gset
COMMIT;
BEGIN;
SELECT fencing.bind('seal_savepoint/8', 33) \gset
SAVEPOINT a;
SELECT fencing.bind('seal_savepoint/8', 34) \gset
ROLLBACK TO a;
SELECT fencing.bind('seal_savepoint/8', 33) \gset
COMMIT;
SELECT fence(8);
-- ... and in one that is kept: 33 is stale afterwards.
BEGIN;
SELECT fencing.bind('seal_savepoint/9', 33) \gset
SAVEPOINT a;
SELECT fencing.bind('seal_savepoint/9', 34) \gset
RELEASE a;
SELECT bound();
SAVEPOINT b;
SELECT fencing.bind('seal_savepoint/9', 33);
ROLLBACK TO b;
SELECT bound();
COMMIT;
SELECT fence(9);

-- A write and a binding of one resource go separately.
BEGIN;
SELECT fencing.bind('seal_savepoint/10', 33) \gset
SAVEPOINT a;
INSERT INTO task VALUES (10, 33);
ROLLBACK TO a;
SELECT bound();
SELECT raise(10) \gset
COMMIT;
BEGIN;
INSERT INTO task VALUES (10, 33);
SAVEPOINT a;
SELECT fencing.bind('seal_savepoint/10', 33) \gset
ROLLBACK TO a;
SELECT bound();
SELECT raise(10) \gset
COMMIT;
SELECT fence(10);

-- Several resources: each has a stack of its own.
BEGIN;
SELECT fencing.bind('seal_savepoint/11', 33) \gset
SAVEPOINT a;
SELECT fencing.bind('seal_savepoint/12', 33) \gset
SAVEPOINT b;
SELECT fencing.bind('seal_savepoint/13', 33) \gset
SELECT fencing.bind('seal_savepoint/11', 35) \gset
SELECT bound();
ROLLBACK TO b;
SELECT bound();
SELECT fencing.bind('seal_savepoint/14', 36) \gset
RELEASE a;
SELECT bound();
SELECT raise(13) \gset
COMMIT;
SELECT fence(11), fence(12), fence(13), fence(14);
BEGIN;
SELECT fencing.bind('seal_savepoint/11', 34) \gset
SAVEPOINT a;
SELECT fencing.bind('seal_savepoint/12', 34) \gset
ROLLBACK TO a;
SELECT raise(12) \gset
SELECT raise(11) \gset
COMMIT;
SELECT fence(11), fence(12);

-- The fence that was raised goes with its savepoint as well.
BEGIN;
SELECT fencing.bind('seal_savepoint/15', 33) \gset
SAVEPOINT a;
SELECT raise(15) \gset
ROLLBACK TO a;
COMMIT;
SELECT fence(15);
BEGIN;
SAVEPOINT a;
SELECT raise(15) \gset
ROLLBACK TO a;
SELECT fencing.bind('seal_savepoint/15', 33) \gset
COMMIT;
SELECT fence(15);
BEGIN;
SAVEPOINT a;
SELECT raise(15) \gset
SELECT fencing.bind('seal_savepoint/15', 33);
ROLLBACK TO a;
SELECT fencing.bind('seal_savepoint/15', 34) \gset
COMMIT;
SELECT fence(15);

-- An error takes back what its savepoint covers, like ROLLBACK TO.
BEGIN;
SAVEPOINT a;
SELECT fencing.bind('seal_savepoint/16', 33) \gset
SELECT 1 / 0;
ROLLBACK TO a;
SELECT bound();
SELECT raise(16) \gset
COMMIT;
SELECT fence(16);
-- A statement that fails half-way leaves no claim: here the first row's resource.
BEGIN;
SAVEPOINT a;
INSERT INTO task VALUES (17, 33), (18, 32);
ROLLBACK TO a;
SELECT raise(17) \gset
COMMIT;
SELECT fence(17);

-- Exception blocks of functions are savepoints, too; each row of a statement may have its own.
CREATE FUNCTION try(id int, token bigint, fail boolean) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO test_seal_savepoint.task VALUES (id, token);
    IF fail THEN
        RAISE EXCEPTION 'failed';
    END IF;
    RETURN 'written';
EXCEPTION WHEN OTHERS THEN
    RETURN sqlerrm;
END $$;
BEGIN;
SELECT n, try(n, 33, n % 2 = 0) FROM generate_series(19, 22) AS n;
SELECT raise(20), raise(22);
COMMIT;
SELECT fence(20), fence(22);
BEGIN;
SELECT n, try(n, 33, n % 2 = 0) FROM generate_series(19, 22) AS n;
SELECT raise(19);
COMMIT;
BEGIN;
SELECT try(23, 33, false), try(23, 35, true), try(23, 34, false), try(23, 36, true), try(23, 33, false), try(23, 34, false);
SELECT raise(23, 34);
COMMIT;
-- 33 was written and stands, so a fence of 34 is too high for the transaction.
SELECT fence(23), count(*) FROM task WHERE id = 23;
BEGIN;
SELECT try(23, 33, false), try(23, 35, true), try(23, 34, false);
COMMIT;
SELECT fence(23), string_agg(token::text, ', ' ORDER BY token) FROM task WHERE id = 23;

-- Many savepoints, and many claims in each: what is rolled back goes, what is kept counts.
CREATE FUNCTION many(depth int, fail_at int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fencing.bind('seal_savepoint/many-' || n, 100 + depth) FROM generate_series(1, 20) AS n;
    IF depth < 30 THEN
        BEGIN
            PERFORM many(depth + 1, fail_at);
        EXCEPTION WHEN division_by_zero THEN
            IF depth > 10 THEN
                RAISE;
            END IF;
        END;
    END IF;
    IF depth = fail_at THEN
        PERFORM 1 / 0;
    END IF;
END $$;
SELECT count(fencing.advance('seal_savepoint/many-' || n, 33)) FROM generate_series(1, 20) AS n;
BEGIN;
SELECT many(1, 0);
SELECT token, count(*) FROM fencing.bound() GROUP BY token;
ROLLBACK;
SELECT count(*) FROM fencing.bound();
BEGIN;
SELECT many(1, 20);
SELECT token, count(*) FROM fencing.bound() GROUP BY token;
COMMIT;
SELECT token, count(*) FROM generate_series(1, 20) AS n, fencing.lookup('seal_savepoint/many-' || n) GROUP BY token;

SELECT count(fencing.forget('seal_savepoint/' || n)) FROM (SELECT n::text FROM generate_series(1, 40) AS n UNION ALL SELECT 'many-' || n FROM generate_series(1, 20) AS n) AS names (n);
SET client_min_messages = warning;
DROP SCHEMA test_seal_savepoint CASCADE;
