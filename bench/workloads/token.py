"""token.py: tokens per second."""

from harness import Comparison, Workload, at_least, pgbench

NEXT_TOKEN = "fencing.next_token"
NEXTVAL = "nextval (a crash may issue it again)"
INSERT = "INSERT ... nextval ... RETURNING"

SCRIPTS = {
    NEXT_TOKEN: "SELECT fencing.next_token();",
    NEXTVAL: "SELECT nextval('plain_token');",
    INSERT: "INSERT INTO issued (token) VALUES (nextval('plain_token')) RETURNING token;",
}


def next_token(session, size, _library):
    """A draw for each transaction."""
    session.query("CREATE SEQUENCE plain_token")
    session.query("CREATE TABLE issued (token bigint PRIMARY KEY)")

    def run(name, clients):
        rate, _ = pgbench(SCRIPTS[name], clients, size.seconds)
        session.query("TRUNCATE issued")
        return {"per second": rate}

    yield Workload(
        "next_token: 1 client, synchronous_commit on",
        {name: (lambda name=name: run(name, 1)) for name in (NEXT_TOKEN, NEXTVAL)},
        [Comparison(NEXT_TOKEN, NEXTVAL, at_least(0.90))],
    )
    yield Workload(
        "next_token: 8 clients, synchronous_commit on",
        {name: (lambda name=name: run(name, 8)) for name in (NEXT_TOKEN, NEXTVAL, INSERT)},
        [
            Comparison(NEXT_TOKEN, INSERT, at_least(2.50)),
            Comparison(NEXT_TOKEN, NEXTVAL),
        ],
    )
    session.query("DROP TABLE issued; DROP SEQUENCE plain_token")
