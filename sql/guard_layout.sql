-- The guard puts the token of the transaction into a row wherever its column stands, and into nothing else: behind columns of
-- varying length, of each alignment, empty, dropped or younger than the row.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
CREATE TABLE layout (
	flag "char", note text, small smallint, gone int, key text, day date, token bigint, amount numeric, tail "char",
	id int PRIMARY KEY);
INSERT INTO layout
	SELECT CASE WHEN n & 1 <> 0 THEN 'f' END, CASE WHEN n & 2 <> 0 THEN repeat('n', n) END, CASE WHEN n & 4 <> 0 THEN n END, n,
		CASE WHEN n & 8 <> 0 THEN repeat('k', 7 * n) END, CASE WHEN n & 16 <> 0 THEN date '2024-02-29' + n END, 1, n / 7.0, 't', n
	FROM generate_series(0, 31) AS n;
-- Outside of the row: compressed, or stored apart.
INSERT INTO layout VALUES
	('f', repeat('long ', 20000), 1, 1, 'k', '2024-02-29', 1, 1, 't', 32),
	('f', (SELECT string_agg(md5(n::text), '') FROM generate_series(1, 1000) AS n), 1, 1, 'k', '2024-02-29', 1, 1, 't', 33);
ALTER TABLE layout DROP COLUMN gone;
ALTER TABLE layout ADD COLUMN young text DEFAULT 'young';
CREATE TABLE before AS SELECT * FROM layout;
SELECT fencing.protect('layout', 'token');
BEGIN;
SET LOCAL fencing.token = 1234567890123;
UPDATE layout SET tail = 'u';
COMMIT;
SELECT count(*), count(DISTINCT token), min(token) FROM layout;
SELECT count(*) AS otherwise_changed FROM layout AS l JOIN before AS b USING (id)
	WHERE (l.flag, l.note, l.small, l.key, l.day, l.amount, l.young) IS DISTINCT FROM (b.flag, b.note, b.small, b.key, b.day, b.amount, b.young)
		OR l.tail <> 'u';

-- A column that the statement changes together with it, and one that becomes empty.
BEGIN;
SET LOCAL fencing.token = 1234567890124;
UPDATE layout SET note = key, key = note, flag = NULL WHERE id >= 30 RETURNING id, length(note), length(key), flag, token, tail;
COMMIT;

-- The rows are whole for whoever reads them otherwise: by the index, by a check, in a partition.
SET enable_seqscan = off;
SELECT id, token, amount::numeric(6, 3), young FROM layout WHERE id IN (7, 21, 31) ORDER BY id;
RESET enable_seqscan;

-- An empty column, a narrow one, and a row that is no longer than up to the column.
CREATE TABLE narrow (note text, token smallint, wide int);
INSERT INTO narrow VALUES ('none', NULL, 1), ('zero', 0, 2), ('one', 1, 3);
SELECT fencing.protect('narrow', 'token');
CREATE TABLE last (id int, note text, token int);
INSERT INTO last VALUES (1, NULL, 5), (2, 'two', 5);
SELECT fencing.protect('last', 'token');
BEGIN;
SET LOCAL fencing.token = 77;
UPDATE narrow SET wide = -wide RETURNING *;
UPDATE last SET note = note || '!' RETURNING *;
INSERT INTO last (id) VALUES (3) RETURNING *;
INSERT INTO narrow VALUES ('given', NULL, 9) RETURNING *;
COMMIT;

DROP TABLE layout, before, narrow, last;
