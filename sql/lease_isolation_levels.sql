-- acquire and isolation levels. A grant protects what is read with a snapshot taken after it; a transaction
-- block at REPEATABLE READ or SERIALIZABLE has its snapshot already or keeps the one of this very call.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;

-- Inside a block it is refused, with the idiom in the HINT.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM fencing.acquire('levels/a');
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT * FROM fencing.acquire('levels/a');
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
-- Also later in the block, in a savepoint, and where there is nothing to get.
\set VERBOSITY sqlstate
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT 1 AS one;
SAVEPOINT s;
SELECT * FROM fencing.acquire('levels/a', steal => 'always');
ROLLBACK;
-- Statements sent together are a block as well.
SET default_transaction_isolation = 'repeatable read';
SELECT 1 AS one\; SELECT * FROM fencing.acquire('levels/a');
RESET default_transaction_isolation;
SELECT count(*) FROM fencing.lookup('levels/a');
\set VERBOSITY default

-- At READ COMMITTED it works inside a block.
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT resource FROM fencing.acquire('levels/read committed');
COMMIT;

-- Alone it works at every level, and refuses at every level.
SET default_transaction_isolation = 'read committed';
SELECT resource FROM fencing.acquire('levels/a');
SELECT count(*) FROM fencing.acquire('levels/a');
SET default_transaction_isolation = 'repeatable read';
SELECT resource FROM fencing.acquire('levels/b');
SELECT count(*) FROM fencing.acquire('levels/b');
SELECT resource FROM fencing.acquire('levels/b', steal => 'always');
SELECT count(*) FROM fencing.acquire('levels/b', wait => '50 milliseconds');
SET default_transaction_isolation = 'serializable';
SELECT resource FROM fencing.acquire('levels/c');
SELECT count(*) FROM fencing.acquire('levels/c');
SELECT resource FROM fencing.acquire('levels/c', steal => 'always');
SELECT count(*) FROM fencing.acquire('levels/c', wait => '50 milliseconds');
-- An expired lease is waited out at every level: the clock and the row are read anew, not the snapshot's.
SET default_transaction_isolation = 'repeatable read';
SELECT resource FROM fencing.acquire('levels/d', '300 milliseconds');
SELECT resource FROM fencing.acquire('levels/d', wait => '30 seconds');

-- renew, release, lookup and next_token are at home in every block.
RESET default_transaction_isolation;
SELECT token AS t FROM fencing.acquire('levels/e') \gset
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT 1 AS one;
SELECT fencing.renew('levels/e', :t) IS NOT NULL AS renewed;
SELECT fencing.next_token() > :t AS greater;
SELECT count(*) FROM fencing.lookup('levels/e');
SELECT fencing.release('levels/e', :t);
COMMIT;
SELECT expires_at IS NULL AS released FROM fencing.lookup('levels/e');
SELECT token AS t FROM fencing.acquire('levels/e') \gset
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT 1 AS one;
SELECT fencing.renew('levels/e', :t) IS NOT NULL AS renewed;
SELECT fencing.release('levels/e', :t);
SELECT fencing.advance('levels/elsewhere', 34);
COMMIT;
SELECT expires_at IS NULL AS released FROM fencing.lookup('levels/e');
