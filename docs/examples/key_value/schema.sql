-- schema.sql: a key-value store with a fence for each key, in schema kv. The owner of the database runs it.
CREATE SCHEMA kv;
CREATE TABLE kv.entry (
    key text PRIMARY KEY CHECK (octet_length(key) BETWEEN 1 AND 500),
    value text NOT NULL,
    fence_token bigint
);
SELECT fencing.protect('kv.entry', 'fence_token', resource => 'kv:{key}');   -- fencing

-- The lease of a key: its token; no row while somebody else has it. Call it alone, not in a transaction.
CREATE FUNCTION kv.lock(key text, ttl interval DEFAULT '30 seconds', wait interval DEFAULT '0') RETURNS SETOF bigint
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT token FROM fencing.acquire('kv:' || key, ttl, wait => wait);
$$;

CREATE FUNCTION kv.unlock(key text, token bigint) RETURNS boolean
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT fencing.release('kv:' || key, token);
$$;

-- NULL where there is none. Needs no token.
CREATE FUNCTION kv.get(key text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT value FROM kv.entry AS e WHERE e.key = get.key;
$$;

CREATE FUNCTION kv.put(key text, value text, token bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM fencing.bind('kv:' || key, token);                               -- fencing
    INSERT INTO kv.entry AS e (key, value) VALUES (put.key, put.value)
        ON CONFLICT ON CONSTRAINT entry_pkey DO UPDATE SET value = excluded.value;
END $$;

-- Whether there was one.
CREATE FUNCTION kv.delete(key text, token bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM fencing.bind('kv:' || key, token);                               -- fencing
    DELETE FROM kv.entry AS e WHERE e.key = "delete".key;
    RETURN FOUND;
END $$;

-- Many at once, all or none: kv.put_all('[{"key": "a", "value": "1", "token": 5}, ...]'). Returns how many.
CREATE FUNCTION kv.put_all(entries jsonb) RETURNS bigint
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT count(put) FROM jsonb_to_recordset(entries) AS e (key text, value text, token bigint),
        LATERAL (SELECT kv.put(e.key, e.value, e.token)::text AS put) AS p;
$$;

-- app is the role of the clients: they take leases, and write to the table only through the guard.
GRANT USAGE ON SCHEMA kv TO app;
GRANT SELECT, INSERT, UPDATE, DELETE ON kv.entry TO app;
GRANT EXECUTE ON FUNCTION fencing.acquire, fencing.release, fencing.bind TO app;
