-- shard.sql: what each shard has. Variables of psql: shard (its number, from 0), shards (how many; a power of two).
-- The name of a resource is the key of its row, so both lie where the router's hash sends them.
CREATE EXTENSION fencing;
CREATE TABLE task (id text PRIMARY KEY, result text, fence_token bigint,
	-- A row that was sent to the wrong shard would be under the wrong fence.
	CONSTRAINT belongs_here CHECK (hashtext(id) & (:shards - 1) = :shard));
SELECT fencing.protect('task', 'fence_token', resource => '{id}');

-- Through the router a call is a transaction, so each transaction of the application is a function. bind holds for all
-- of it, whatever tables it writes.
CREATE FUNCTION put(resource text, token bigint, result text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM fencing.bind(put.resource, put.token);
	INSERT INTO task (id, result) VALUES (put.resource, put.result)
	ON CONFLICT (id) DO UPDATE SET result = excluded.result;
END $$;

CREATE FUNCTION get(resource text) RETURNS text LANGUAGE sql STABLE
	RETURN (SELECT result FROM task WHERE id = get.resource);

GRANT EXECUTE ON FUNCTION fencing.acquire, fencing.renew, fencing.release, fencing.bind, fencing.advance TO worker;
GRANT SELECT, INSERT, UPDATE ON task TO worker;
