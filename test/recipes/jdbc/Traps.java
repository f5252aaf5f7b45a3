// Traps.java TRAP...: the traps of the driver and the pool that docs/recipes/jdbc.md tells of. Prints "TRAP: WHAT
// CAME OF IT". Each trap has a report of its name (docs/recipes/schema.sql); table entry is made by jdbc.pl.
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Arrays;
import java.util.Map;
import org.postgresql.util.PSQLException;

public final class Traps {
    private static final String URL = String.format("jdbc:postgresql://%s:%s/%s?user=%s", System.getenv("PGHOST"),
            System.getenv("PGPORT"), System.getenv("PGDATABASE"), System.getenv("PGUSER"));

    private static final String BIND_AND_WRITE =
            "UPDATE report SET body = 'x' FROM fencing.bind('%1$s', %2$d) WHERE name = '%1$s'";

    private interface Attempt {
        void run() throws SQLException;
    }

    private interface Trap {
        String run(String name) throws SQLException;
    }

    /** "passed", or the SQLSTATE. */
    private static String outcome(Attempt attempt) {
        try {
            attempt.run();
            return "passed";
        } catch (SQLException error) {
            return error.getSQLState();
        }
    }

    private static String hint(Attempt attempt) throws SQLException {
        try {
            attempt.run();
            return "passed";
        } catch (PSQLException error) {
            return error.getSQLState() + " " + error.getServerErrorMessage().getHint();
        }
    }

    private static String value(Connection db, String sql) throws SQLException {
        try (Statement statement = db.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            return rows.next() ? rows.getString(1) : "no row";
        }
    }

    private static void execute(Connection db, String sql) throws SQLException {
        try (Statement statement = db.createStatement()) {
            statement.execute(sql);
        }
    }

    private static long take(Connection db, String resource) throws SQLException {
        String acquire = "SELECT token FROM fencing.acquire('" + resource + "', '1 hour', steal => 'always')";
        return Long.parseLong(value(db, acquire));
    }

    private static Connection connect(String options) throws SQLException {
        return DriverManager.getConnection(URL + options);
    }

    private static String body(Connection db, String name) throws SQLException {
        return value(db, "SELECT body FROM report WHERE name = '" + name + "'");
    }

    private static String bind(String name, long token) {
        return "SELECT fencing.bind('" + name + "', " + token + ")";
    }

    private static String update(String name) {
        return "UPDATE report SET body = 'x' WHERE name = '" + name + "'";
    }

    /** In autocommit each statement is a transaction: SET LOCAL has ended before the write. */
    private static String setLocal(String name) throws SQLException {
        try (Connection db = connect(""); Statement statement = db.createStatement()) {
            statement.execute("SET LOCAL fencing.token = " + take(db, name));
            String warning = statement.getWarnings().getSQLState();
            return "warning " + warning + ", " + hint(() -> execute(db, update(name))) + ", " + body(db, name);
        }
    }

    private static String loneBind(String name) throws SQLException {
        try (Connection db = connect("")) {
            execute(db, bind(name, take(db, name)));
            return hint(() -> execute(db, update(name))) + ", " + body(db, name);
        }
    }

    private static String oneStatement(String name) throws SQLException {
        try (Connection db = connect("")) {
            String write = String.format(BIND_AND_WRITE, name, take(db, name));
            return outcome(() -> execute(db, write)) + ", " + body(db, name);
        }
    }

    /** With autocommit off, a grant is open until commit(). */
    private static String openGrant(String name) throws SQLException {
        try (Connection db = connect(""); Connection other = connect("")) {
            String seen = "SELECT count(*) FROM fencing.lookup('" + name + "')";
            db.setAutoCommit(false);
            take(db, name);
            String before = value(other, seen);
            db.commit();
            return "seen " + before + ", after commit " + value(other, seen);
        }
    }

    /** The driver has one class for all errors: a refusal and a serialisation failure. */
    private static String classes(String name) throws SQLException {
        StringBuilder result = new StringBuilder();
        try (Connection db = connect(""); Connection other = connect("")) {
            long token = take(other, name);
            execute(other, String.format(BIND_AND_WRITE, name, token));
            db.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
            db.setAutoCommit(false);
            execute(db, bind(name, token));
            execute(other, String.format(BIND_AND_WRITE, name, token));
            for (String sql : new String[] {update(name), bind(name, token)}) {
                try {
                    execute(db, sql);
                } catch (SQLException error) {
                    result.append(error.getClass().getSimpleName()).append(' ').append(error.getSQLState()).append(' ');
                }
                db.rollback();
                take(other, name);
            }
        }
        return result.toString().trim();
    }

    private static HikariDataSource poolOfOne() {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(URL);
        config.setMaximumPoolSize(1);
        return new HikariDataSource(config);
    }

    /** A session's SET stays on the pooled connection, and counts for nobody. */
    private static String pooledSet(String name) throws SQLException {
        try (HikariDataSource pool = poolOfOne()) {
            String token;
            String own;
            try (Connection db = pool.getConnection()) {
                token = String.valueOf(take(db, name));
                execute(db, "SET fencing.token = " + token);
                own = hint(() -> execute(db, update(name)));
            }
            try (Connection db = pool.getConnection()) {
                boolean there = token.equals(value(db, "SHOW fencing.token"));
                db.setAutoCommit(false);
                return own + ", there for the next " + there + ", " + outcome(() -> execute(db, update(name)));
            }
        }
    }

    /** What is open when a connection goes back to the pool is rolled back, and bound to nothing. */
    private static String pooledBind(String name) throws SQLException {
        try (HikariDataSource pool = poolOfOne()) {
            String server;
            String bound;
            try (Connection db = pool.getConnection()) {
                long token = take(db, name);
                db.setAutoCommit(false);
                execute(db, bind(name, token));
                server = value(db, "SELECT pg_backend_pid()");
                bound = value(db, "SELECT count(*) FROM fencing.bound()");
            }
            try (Connection db = pool.getConnection()) {
                boolean same = server.equals(value(db, "SELECT pg_backend_pid()"));
                String after = value(db, "SELECT count(*) FROM fencing.bound()");
                return "bound " + bound + ", same server " + same + ", then " + after;
            }
        }
    }

    /** Three rows that name the token column; the second one with a stale token. */
    private static String batch(String name, String options, boolean autocommit) throws SQLException {
        try (Connection db = connect(options)) {
            long stale = take(db, name);
            long token = take(db, name);
            db.setAutoCommit(autocommit);
            String result = "passed";
            try (PreparedStatement insert = db.prepareStatement(
                    "INSERT INTO entry (name, line, fence_token) VALUES (?, ?, ?)")) {
                for (int line = 1; line <= 3; line++) {
                    insert.setString(1, name);
                    insert.setInt(2, line);
                    insert.setLong(3, line == 2 ? stale : token);
                    insert.addBatch();
                }
                insert.executeBatch();
            } catch (BatchUpdateException error) {
                result = error.getSQLState() + " and " + error.getNextException().getSQLState() + ", "
                        + Arrays.toString(error.getUpdateCounts());
            }
            if (!autocommit) {
                db.rollback();
            }
            return result + ", rows " + value(db, "SELECT count(*) FROM entry WHERE name = '" + name + "'");
        }
    }

    /** Rows that make the driver cut the batch; only the last one carries a stale token. */
    private static String longBatch(String name) throws SQLException {
        try (Connection db = connect("")) {
            long stale = take(db, name);
            long token = take(db, name);
            int last = 2000;
            String result = "passed";
            try (PreparedStatement insert = db.prepareStatement(
                    "INSERT INTO entry (name, line, fence_token) VALUES (?, ?, ?)")) {
                for (int line = 1; line <= last; line++) {
                    insert.setString(1, name);
                    insert.setInt(2, line);
                    insert.setLong(3, line == last ? stale : token);
                    insert.addBatch();
                }
                insert.executeBatch();
            } catch (BatchUpdateException error) {
                result = error.getSQLState();
            }
            boolean some = Integer.parseInt(value(db, "SELECT count(*) FROM entry WHERE name = '" + name + "'")) > 0;
            return result + ", some rows " + some;
        }
    }

    /** Three rows in a bound transaction: what the batch returns, and how many rows are stamped with the token. */
    private static String boundBatch(String name, String options) throws SQLException {
        try (Connection db = connect(options)) {
            long token = take(db, name);
            db.setAutoCommit(false);
            execute(db, bind(name, token));
            try (PreparedStatement insert = db.prepareStatement("INSERT INTO entry (name, line) VALUES (?, ?)")) {
                for (int line = 1; line <= 3; line++) {
                    insert.setString(1, name);
                    insert.setInt(2, line);
                    insert.addBatch();
                }
                String counts = Arrays.toString(insert.executeBatch());
                db.commit();
                return counts + ", stamped " + value(db, "SELECT count(*) FROM entry WHERE fence_token = " + token);
            }
        }
    }

    /** Statements that the server keeps prepared; then somebody else is granted the lease. */
    private static String prepared(String name) throws SQLException {
        try (Connection db = connect("&prepareThreshold=2"); Connection thief = connect("")) {
            long token = take(db, name);
            db.setAutoCommit(false);
            try (PreparedStatement bind = db.prepareStatement("SELECT fencing.bind(?, ?)");
                    PreparedStatement write = db.prepareStatement("UPDATE report SET body = 'x' WHERE name = ?")) {
                bind.setString(1, name);
                bind.setLong(2, token);
                write.setString(1, name);
                for (int i = 0; i < 4; i++) {
                    bind.execute();
                    write.execute();
                    db.commit();
                }
                String kept = value(db, "SELECT count(*) FROM pg_prepared_statements"
                        + " WHERE statement IN ('SELECT fencing.bind($1, $2)',"
                        + " 'UPDATE report SET body = ''x'' WHERE name = $1')");
                db.rollback();
                take(thief, name);
                return kept + " prepared, " + outcome(bind::execute);
            }
        }
    }

    /** The lease changes hands between the last statement and COMMIT. */
    private static String commit(String name) throws SQLException {
        try (Connection db = connect(""); Connection thief = connect("")) {
            long token = take(db, name);
            db.setAutoCommit(false);
            execute(db, bind(name, token));
            execute(db, update(name));
            take(thief, name);
            return outcome(db::commit) + ", " + body(thief, name);
        }
    }

    /** Catches the refusal, goes on, and commits: the transaction is rolled back, and commit() does not say so. */
    private static String swallowed(String name) throws SQLException {
        return goOn(name, "");
    }

    /** With autosave each statement has a savepoint before it: the refused one is undone, the rest is committed. */
    private static String autosave(String name) throws SQLException {
        return goOn(name, "&autosave=always");
    }

    private static String goOn(String name, String options) throws SQLException {
        try (Connection db = connect(options)) {
            long stale = take(db, name);
            take(db, name);
            db.setAutoCommit(false);
            String refused = outcome(() -> execute(db, bind(name, stale)));
            String log = "INSERT INTO report_log (name, holder) VALUES ('" + name + "', 'w')";
            String next = outcome(() -> execute(db, log));
            String commit = outcome(db::commit);
            String lines = value(db, "SELECT count(*) FROM report_log WHERE name = '" + name + "'");
            return refused + ", next statement " + next + ", commit " + commit + ", log lines " + lines;
        }
    }

    private static final Map<String, Trap> TRAPS = Map.ofEntries(
            Map.entry("SET LOCAL in autocommit", Traps::setLocal),
            Map.entry("bind in autocommit", Traps::loneBind),
            Map.entry("one statement", Traps::oneStatement),
            Map.entry("open grant", Traps::openGrant),
            Map.entry("classes", Traps::classes),
            Map.entry("pooled SET", Traps::pooledSet),
            Map.entry("pooled bind", Traps::pooledBind),
            Map.entry("batch", name -> batch(name, "", false)),
            Map.entry("batch in autocommit", name -> batch(name, "", true)),
            Map.entry("long batch in autocommit", Traps::longBatch),
            Map.entry("rewritten batch", name -> batch(name, "&reWriteBatchedInserts=true", false)),
            Map.entry("bound batch", name -> boundBatch(name, "")),
            Map.entry("bound rewritten batch", name -> boundBatch(name, "&reWriteBatchedInserts=true")),
            Map.entry("prepared", Traps::prepared),
            Map.entry("commit", Traps::commit),
            Map.entry("swallowed", Traps::swallowed),
            Map.entry("autosave", Traps::autosave));

    public static void main(String[] arguments) throws SQLException {
        for (String name : arguments) {
            System.out.println(name + ": " + TRAPS.get(name).run(name));
        }
    }
}
