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
        figures, _ = pgbench(SCRIPTS[name], clients, size)
        session.query("TRUNCATE issued")
        return figures

    for clients in (1, 2, 8, 32):
        yield Workload(
            f"next_token: {clients} clients, synchronous_commit on",
            {name: (lambda name=name: run(name, clients)) for name in SCRIPTS},
            [
                Comparison(NEXT_TOKEN, NEXTVAL, at_least(0.70) if clients == 8 else None),
                Comparison(NEXT_TOKEN, INSERT),
            ],
            family="next_token: draws, synchronous_commit on",
            number=("clients", clients),
        )
    session.query("DROP TABLE issued; DROP SEQUENCE plain_token")
