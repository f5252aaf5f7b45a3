-- Bad input of advance and forget.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
SELECT fencing.advance('bad fence/a', 34);

-- NULL where none is allowed.
SELECT fencing.advance(NULL, 34);
\echo :LAST_ERROR_SQLSTATE
SELECT fencing.advance('bad fence/a', NULL);
\echo :LAST_ERROR_SQLSTATE
SELECT fencing.forget(NULL);
\echo :LAST_ERROR_SQLSTATE

-- 0 means "none", and less than that is no token either.
SELECT fencing.advance('bad fence/a', 0);
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
SELECT fencing.advance('bad fence/a', -1);
SELECT fencing.advance('bad fence/b', -9223372036854775808);

-- A name has 1 to 512 bytes.
SELECT fencing.advance('', 34);
SELECT fencing.advance(repeat('x', 513), 34);
SELECT fencing.advance(repeat(U&'\00e9', 257), 34);
SELECT fencing.advance(repeat('y', 512), 34);
SELECT fencing.advance(repeat(U&'\00e8', 256), 34);
SELECT fencing.forget('');
SELECT fencing.forget(repeat('y', 513));
SELECT fencing.forget(repeat('y', 512));
SELECT fencing.forget(repeat(U&'\00e8', 256));

-- Nothing has changed.
\set VERBOSITY default
SELECT * FROM fencing.lookup('bad fence/a');
SELECT count(*) FROM fencing.lookup('bad fence/b');
