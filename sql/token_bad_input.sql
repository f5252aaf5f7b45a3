-- Bad input of next_token and fast_forward.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
SELECT fencing.next_token() AS before \gset

-- NULL where none is allowed.
SELECT fencing.fast_forward(NULL);
\echo :LAST_ERROR_SQLSTATE

-- A number that no token ever was.
SELECT fencing.fast_forward(-1);
\echo :LAST_ERROR_SQLSTATE
SELECT fencing.fast_forward(-9223372036854775808);
\echo :LAST_ERROR_SQLSTATE

-- A number above which there is no token.
SELECT fencing.fast_forward(9223372036854775807);
\echo :LAST_ERROR_SQLSTATE

-- None of this has moved anything.
SELECT fencing.next_token() - :before AS step;
