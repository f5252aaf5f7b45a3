-- schema.sql: 50 owners with two accounts each, in 5 shards. The owner of the database runs it. Amounts are in cents.
--
-- The rule that no CHECK constraint can say: either account of an owner may be overdrawn, as long as both together are not.
CREATE TABLE account (
    id int PRIMARY KEY,
    owner int NOT NULL,
    shard int NOT NULL,
    opening bigint NOT NULL,
    balance bigint NOT NULL,
    version bigint NOT NULL DEFAULT 0,
    fence_token bigint
);
-- What clients ask for. They choose the key, and send the request again under the same key when they have no answer.
CREATE TABLE request (
    key text PRIMARY KEY,
    source int NOT NULL REFERENCES account,
    target int REFERENCES account CHECK (target <> source),   -- NULL: a payment to another bank
    amount bigint NOT NULL CHECK (amount > 0)
);
-- What has become of it. A request without an outcome is open.
CREATE TABLE outcome (
    key text PRIMARY KEY REFERENCES request,
    shard int NOT NULL,                                       -- of the source
    state text NOT NULL CHECK (state IN ('done', 'rejected')),
    fence_token bigint
);
-- Payments to another bank. Those that have no delivery are still to be sent.
CREATE TABLE outbox (
    key text PRIMARY KEY REFERENCES outcome,
    shard int NOT NULL,
    amount bigint NOT NULL,
    fence_token bigint
);
CREATE TABLE delivery (key text PRIMARY KEY REFERENCES outbox);

INSERT INTO account (id, owner, shard, opening, balance)
    SELECT 2 * owner - n, owner, owner % 5, cents, cents
    FROM generate_series(1, 50) AS owner, generate_series(0, 1) AS n,
        LATERAL (SELECT 10000 + (owner * 7919 + n * 104729) % 50000) AS opening (cents);

SELECT fencing.protect('account', 'fence_token', resource => 'shard:{shard}');   -- fencing
SELECT fencing.protect('outcome', 'fence_token', resource => 'shard:{shard}');   -- fencing
SELECT fencing.protect('outbox', 'fence_token', resource => 'shard:{shard}');    -- fencing

-- app is the role of the programs.
GRANT SELECT ON ALL TABLES IN SCHEMA public TO app;
GRANT INSERT ON request, outcome, outbox, delivery TO app;
GRANT UPDATE ON account TO app;
GRANT EXECUTE ON FUNCTION fencing.acquire, fencing.release, fencing.bind TO app;
