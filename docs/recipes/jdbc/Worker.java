// Worker.java RESOURCE HOLDER TTL_SECONDS: writes a report under a lease, with JDBC and a pool (HikariCP). The page
// beside says what to mind.
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.channels.Channels;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CancellationException;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;

public final class Worker {
    private final String url;
    private final String resource;
    private final String holder;
    private final double ttl;

    private Worker(String url, String resource, String holder, double ttl) {
        this.url = url;
        this.resource = resource;
        this.holder = holder;
        this.ttl = ttl;
    }

    /** The work: yours goes here. Its thread is interrupted when the lease is lost, which this kind of read obeys. */
    private static String work() throws IOException {
        var input = Channels.newInputStream(new FileInputStream(FileDescriptor.in).getChannel());
        return new BufferedReader(new InputStreamReader(input, StandardCharsets.UTF_8)).readLine();
    }

    private static PreparedStatement prepare(Connection db, String sql, Object... values) throws SQLException {
        PreparedStatement statement = db.prepareStatement(sql);
        for (int i = 0; i < values.length; i++) {
            statement.setObject(i + 1, values[i]);
        }
        return statement;
    }

    private static void execute(Connection db, String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = prepare(db, sql, values)) {
            statement.execute();
        }
    }

    /** The token, or null when somebody else holds the lease. */
    private Long acquire(HikariDataSource pool) throws SQLException {
        String sql = "SELECT token FROM fencing.acquire(?, make_interval(secs => ?), ?, '10 seconds')";
        try (Connection db = pool.getConnection();
                PreparedStatement statement = prepare(db, sql, resource, ttl, holder);
                ResultSet lease = statement.executeQuery()) {
            return lease.next() ? lease.getLong(1) : null;
        }
    }

    /**
     * Renews every third of the ttl, on a connection that no other thread can have taken from the pool. A renewal that
     * fails, or has no answer in time, counts as a lost lease: nobody knows any more.
     */
    private void heartbeat(long token, Future<String> work) {
        Properties limits = new Properties();
        limits.setProperty("socketTimeout", String.valueOf((int) Math.ceil(ttl / 3)));
        try (Connection db = DriverManager.getConnection(url, limits);
                PreparedStatement renew = prepare(db, "SELECT fencing.renew(?, ?)", resource, token)) {
            ResultSet answer;
            do {
                Thread.sleep((long) (ttl * 1000 / 3));
                answer = renew.executeQuery();
            } while (answer.next() && answer.getObject(1) != null);
        } catch (SQLException error) {
            // The work is stopped, as when the answer is NULL.
        } catch (InterruptedException done) {
            return;
        }
        work.cancel(true);
    }

    /** The whole transaction again when it fails with class 40, and on nothing else: TK001 must end the worker. */
    private void write(HikariDataSource pool, long token, String body) throws SQLException {
        while (true) {
            try (Connection db = pool.getConnection()) { // close() rolls back what is not committed: so do most pools
                db.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
                db.setAutoCommit(false);
                execute(db, "SELECT fencing.bind(?, ?)", resource, token); // fencing: first in every transaction
                execute(db, "INSERT INTO report_log (name, holder) VALUES (?, ?)", resource, holder);
                execute(db, "UPDATE report SET body = ?, revision = revision + 1 WHERE name = ?", body, resource);
                db.commit(); // may throw TK001 as well: then nothing is committed
                return;
            } catch (SQLException error) {
                if (!"40001".equals(error.getSQLState()) && !"40P01".equals(error.getSQLState())) {
                    throw error;
                }
            }
        }
    }

    private int run(HikariDataSource pool) throws Exception {
        Long token = acquire(pool);
        if (token == null) {
            System.out.println("busy");
            return 1;
        }
        System.out.println("granted " + token);
        FutureTask<String> work = new FutureTask<>(Worker::work);
        Thread beat = new Thread(() -> heartbeat(token, work));
        beat.start();
        new Thread(work).start();
        try {
            write(pool, token, work.get());
            System.out.println("written");
            return 0;
        } catch (CancellationException lost) {
            System.out.println("lost");
            return 1;
        } catch (SQLException error) {
            System.out.println("refused " + error.getSQLState());
            return 1;
        } finally {
            beat.interrupt();
            try (Connection db = pool.getConnection()) {
                execute(db, "SELECT fencing.release(?, ?)", resource, token);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> env = System.getenv();
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(String.format("jdbc:postgresql://%s:%s/%s?user=%s",
                env.get("PGHOST"), env.get("PGPORT"), env.get("PGDATABASE"), env.get("PGUSER")));
        config.setMaximumPoolSize(2);
        Worker worker = new Worker(config.getJdbcUrl(), arguments[0], arguments[1], Double.parseDouble(arguments[2]));
        int status;
        try (HikariDataSource pool = new HikariDataSource(config)) {
            status = worker.run(pool);
        }
        System.exit(status);
    }
}
