-- schema.sql: purchases, and for each customer a statement of them. The owner of the database runs it.
CREATE TABLE purchase (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer int NOT NULL,
    amount numeric(10, 2) NOT NULL
);
CREATE TABLE statement (
    customer int PRIMARY KEY,
    purchases int NOT NULL,
    total numeric(12, 2) NOT NULL,
    body text NOT NULL,
    fence_token bigint
);
SELECT fencing.protect('statement', 'fence_token', resource => 'statement:{customer}');      -- fencing

-- 60 customers with 4 to 24 purchases each.
INSERT INTO purchase (customer, amount)
    SELECT customer, 5 + (customer * 37 + n * 101) % 9000 / 100.0
    FROM generate_series(1, 60) AS customer, generate_series(1, 4 + customer * 7 % 21) AS n;

-- app is the role of the programs. The queue makes a schema for itself when it starts for the first time.
GRANT SELECT ON purchase TO app;
GRANT SELECT, INSERT, UPDATE ON statement TO app;
GRANT EXECUTE ON FUNCTION fencing.acquire, fencing.release, fencing.bind TO app;             -- fencing
DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO app', current_database()); END $$;
