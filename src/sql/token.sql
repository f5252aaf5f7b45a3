-- Token: numbers that only grow.

-- CACHE 1 and NO CYCLE matter: next_token() refuses to draw from anything else.
CREATE SEQUENCE fencing.token_seq AS bigint MINVALUE 1 START WITH 1 INCREMENT BY 1 CACHE 1 NO CYCLE;
COMMENT ON SEQUENCE fencing.token_seq IS
'Where the tokens of this database come from; drawn only through fencing.next_token() and fencing.acquire(), which flush WAL before they return a value';
-- Without this a dump would leave the position out, and a restored database would start at 1 again.
SELECT pg_catalog.pg_extension_config_dump('fencing.token_seq', '');

-- A sequence, since what it says must survive the ROLLBACK of the transaction that draws and be seen by everybody at once.
CREATE SEQUENCE fencing.origin_seq AS bigint;
COMMENT ON SEQUENCE fencing.origin_seq IS
'Under which identity this database issued its last token: a hash of system identifier, database and fencing.token_seq, and how far its epoch is ahead of the timeline. Written by fencing.next_token(), fencing.acquire() and fencing.fast_forward()';
SELECT pg_catalog.pg_extension_config_dump('fencing.origin_seq', '');
CREATE FUNCTION fencing.record_origin() RETURNS void
LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'fencing_record_origin';
SELECT fencing.record_origin();
DROP FUNCTION fencing.record_origin();

CREATE FUNCTION fencing.next_token() RETURNS bigint
LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'fencing_next_token';
COMMENT ON FUNCTION fencing.next_token() IS
'Draws a token, greater than every token handed out before by this database, and durable before it is returned, whatever becomes of the transaction. Errors: 55000 when fencing.token_seq has options that could issue a value twice, or was created or rewritten by the running transaction, or when fencing.origin_seq could lose the epoch that begins; 2200H when it is used up, or ends before the epoch (token >> 40) that the database has entered; 25006 in a read-only transaction and on a standby. Needs EXECUTE, and no right on the sequence.';

CREATE FUNCTION fencing.fast_forward(above bigint) RETURNS bigint
LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'fencing_fast_forward';
COMMENT ON FUNCTION fencing.fast_forward(bigint) IS
'Makes every later token greater than "above" (0 or more), durably and at once, also when the transaction rolls back, and returns the value that the next token will exceed. Never lowers anything. Past the end of the running epoch (token >> 40) it ends every lease, and makes every token issued here before stale. For migrations, a re-created extension, and what a server cannot see by itself. Errors: 22004 for NULL, 22023 for a negative value or one that leaves no token, 55000 as next_token(), though not in the transaction that creates the extension, 25006 when read-only. For the database owner.';
