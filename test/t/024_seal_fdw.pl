# 024_seal_fdw: a transaction that has also written through postgres_fdw commits here and there, or neither. The server
# calls its commit callbacks last-registered first, and postgres_fdw commits the remote side in one that it registers
# at the first remote access of a session: the seal must come before it, so that a take-over leaves nothing there.
#
# Every case in a fresh session, with the library loaded before or not, once with a take-over between the claim and
# the commit, and once without.
# Caught here: a callback that is not renewed, or only by some kinds of statement; one renewed before the remote
# access; a claim made where no statement of its own ends (a PL/pgSQL expression before the procedure's COMMIT).
use strict;
use warnings;

use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fencing_node('main');
$node->append_conf('postgresql.conf', "log_statement = none\nautovacuum = off\n");
$node->start;
my ($host, $port) = ($node->host, $node->port);
foreach my $database ('far', 'farther')
{
	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$node->safe_psql($database, 'CREATE TABLE remote (n int); INSERT INTO remote VALUES (0)');
}
$node->safe_psql('postgres', <<"SQL");
CREATE EXTENSION fencing;
CREATE EXTENSION postgres_fdw;
CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'far');
CREATE SERVER farther FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'farther');
CREATE USER MAPPING FOR CURRENT_USER SERVER far;
CREATE USER MAPPING FOR CURRENT_USER SERVER farther;
CREATE FOREIGN TABLE remote (n int) SERVER far;
CREATE FOREIGN TABLE remote_2 (n int) SERVER farther OPTIONS (table_name 'remote');
CREATE TABLE task (n int, fence_token bigint);
SELECT fencing.protect('task', 'fence_token', resource => 'job');
SQL
$node->safe_psql('postgres', <<'SQL');
-- Waits for the test, by a lock that it holds; also where only an expression is evaluated.
CREATE FUNCTION wait_for_test() RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	waited text := pg_advisory_xact_lock_shared(1)::text;
BEGIN
	RETURN 0;
END $$;

CREATE PROCEDURE statements(token bigint) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM fencing.bind('job', token);
	INSERT INTO remote VALUES (1);
	PERFORM wait_for_test();
	COMMIT;
END $$;
CREATE PROCEDURE expressions(token bigint) LANGUAGE plpgsql AS $$
DECLARE
	bound bigint;
BEGIN
	bound := fencing.bind('job', token);
	INSERT INTO remote VALUES (1);
	bound := wait_for_test();
	COMMIT;
END $$;
CREATE PROCEDURE bind_last(token bigint) LANGUAGE plpgsql AS $$
DECLARE
	bound bigint;
BEGIN
	INSERT INTO remote VALUES (1);
	bound := fencing.bind('job', token);
	bound := wait_for_test();
	COMMIT;
END $$;
CREATE FUNCTION in_function(token bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	bound bigint;
BEGIN
	INSERT INTO remote VALUES (1);
	bound := fencing.bind('job', token);
	bound := wait_for_test();
END $$;

-- The first remote access of all in a deferred trigger, when the transaction commits.
CREATE TABLE local (n int);
CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	bound bigint;
BEGIN
	INSERT INTO remote VALUES (1);
	bound := wait_for_test();
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON local DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION at_commit();
CREATE FUNCTION bind_at_commit() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	bound bigint;
BEGIN
	INSERT INTO remote VALUES (1);
	bound := fencing.bind('job', (SELECT token FROM fencing.lookup('job')));
	bound := wait_for_test();
	RETURN NULL;
END $$;
CREATE TABLE local_2 (n int);
CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON local_2 DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION bind_at_commit();
SQL

my ($other, $gate, $watcher) = map { FencingSession->new($node) } 1 .. 3;
my @remotes = map { FencingSession->new($node, dbname => $_) } 'far', 'farther';

sub remote_sums
{
	return join ' ', map { $_->get('SELECT sum(n) FROM remote') } @remotes;
}

# What the session runs, %s being the token. In a list the take-over comes before the last one; a single one waits for
# it by itself. What each leaves in far and farther: the sum of the numbers.
my $bind = q(SELECT fencing.bind('job', %s));
my @cases = (
	['INSERT after bind', ['BEGIN', $bind, 'INSERT INTO remote VALUES (1)', 'COMMIT'], 1, 0],
	['COPY after bind', ['BEGIN', $bind, q(COPY remote FROM PROGRAM 'echo 1'), 'COMMIT'], 1, 0],
	['UPDATE after bind', ['BEGIN', $bind, 'UPDATE remote SET n = n + 1', 'COMMIT'], 1, 0],
	['INSERT after a guarded write', ['BEGIN', 'INSERT INTO task VALUES (1, %s)', 'INSERT INTO remote VALUES (1)', 'COMMIT'], 1, 0],
	['bind after INSERT', ['BEGIN', 'INSERT INTO remote VALUES (1)', $bind, 'COMMIT'], 1, 0],
	['bind after COPY', ['BEGIN', q(COPY remote FROM PROGRAM 'echo 1'), $bind, 'COMMIT'], 1, 0],
	['a guarded write after COPY', ['BEGIN', q(COPY remote FROM PROGRAM 'echo 1'), 'INSERT INTO task VALUES (1, %s)', 'COMMIT'], 1, 0],
	['two servers', ['BEGIN', 'INSERT INTO remote VALUES (1)', $bind, 'INSERT INTO remote_2 VALUES (1)', 'COMMIT'], 1, 1],
	['two servers by COPY', ['BEGIN', $bind, q(COPY remote FROM PROGRAM 'echo 1'), q(COPY remote_2 FROM PROGRAM 'echo 1'), 'COMMIT'], 1, 1],
	['in a savepoint', ['BEGIN', $bind, 'SAVEPOINT s', 'INSERT INTO remote VALUES (1)', 'RELEASE s', 'COMMIT'], 1, 0],
	['in a savepoint that is still open', ['BEGIN', $bind, 'SAVEPOINT s', 'INSERT INTO remote VALUES (1)', 'COMMIT'], 1, 0],
	['after a failed remote access', ['BEGIN', $bind, 'SAVEPOINT s', q(SELECT 1 / n FROM remote), 'ROLLBACK TO s', 'INSERT INTO remote VALUES (1)', 'COMMIT'], 1, 0],
	['only the failed access came after bind', ['BEGIN', 'INSERT INTO task VALUES (1, %s)', 'SAVEPOINT s', q(INSERT INTO remote SELECT 1 / n FROM remote), 'ROLLBACK TO s', 'COMMIT'], 0, 0],
	['first by a cursor', ['BEGIN', $bind, 'DECLARE c CURSOR FOR SELECT n FROM remote', 'FETCH c', 'INSERT INTO remote VALUES (1)', 'COMMIT'], 1, 0],
	['bind while a cursor is open', ['BEGIN', 'DECLARE c CURSOR FOR SELECT n FROM remote', 'FETCH c', 'UPDATE remote SET n = 1', $bind, 'COMMIT'], 1, 0],
	['a cursor WITH HOLD', ['BEGIN', $bind, 'DECLARE c CURSOR WITH HOLD FOR SELECT n FROM remote', 'INSERT INTO remote VALUES (1)', 'COMMIT'], 1, 0],
	['COMMIT AND CHAIN', ['BEGIN', $bind, 'INSERT INTO remote VALUES (1)', 'COMMIT AND CHAIN'], 1, 0],
	['one statement', [q(INSERT INTO remote SELECT 1 + wait_for_test() FROM fencing.bind('job', %s))], 1, 0],
	['one statement with a guarded write', [q(WITH written AS (INSERT INTO task VALUES (1 + wait_for_test(), %s) RETURNING n) INSERT INTO remote SELECT n FROM written)], 1, 0],
	['several statements in one message', [q(SELECT fencing.bind('job', %s)\; INSERT INTO remote VALUES (1)\; SELECT wait_for_test())], 1, 0],
	['a procedure that commits', ['CALL statements(%s)'], 1, 0],
	['a procedure that binds in an expression', ['CALL expressions(%s)'], 1, 0],
	['a procedure that binds in an expression, last', ['CALL bind_last(%s)'], 1, 0],
	['a function', ['SELECT in_function(%s)'], 1, 0],
	['a deferred trigger', ["BEGIN; $bind; INSERT INTO local VALUES (1); COMMIT"], 1, 0],
	['a deferred trigger that binds', ['INSERT INTO local_2 SELECT 1 WHERE %s > 0'], 1, 0]);

sub play
{
	my ($case, $loaded, $lost) = @_;
	my ($name, $statements, @sums) = @$case;
	my $title = join ', ', $name, ($loaded ? 'library loaded before' : 'library not loaded'), ($lost ? 'taken over' : 'held');
	my $token = $other->get(q(SELECT token FROM fencing.acquire('job', '1 hour', steal => 'always')));
	my $session = FencingSession->new($node);
	$session->get(sprintf $bind, $token) if $loaded;
	my @run = map { sprintf $_, $token } @$statements;
	my $last = pop @run;
	foreach my $statement (@run)
	{
		my $expected = $statement =~ m{1 / n} ? '22012' : '00000';
		die "$title: $statement: " . $session->errors if $session->state_of($statement) ne $expected;
	}
	if (@run) { $other->get(q(SELECT fencing.acquire('job', '1 hour', steal => 'always'))) if $lost; }
	else { $gate->get('SELECT pg_advisory_lock(1)'); }
	$session->send($last);
	if (!@run)
	{
		my $waits = q(SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory' AND pid = ) . $session->pid;
		until_true(sub { $watcher->get($waits) eq '1' }, 30) or die "$title: does not wait\n";
		$other->get(q(SELECT fencing.acquire('job', '1 hour', steal => 'always'))) if $lost;
		$gate->get('SELECT pg_advisory_unlock(1)');
	}
	$session->wait(60);
	is($session->sqlstate, $lost ? 'TK001' : '00000', $title) or diag($session->errors);
	is(remote_sums(), $lost ? '0 0' : "@sums", '... the remote side is ' . ($lost ? 'not ' : '') . 'committed');
	$session->close;
	is($watcher->get('SELECT (SELECT count(*) FROM task) + (SELECT count(*) FROM local) + (SELECT count(*) FROM local_2)'), 0, '... nor the local one') if $lost;
	$_->get('TRUNCATE remote; INSERT INTO remote VALUES (0)') foreach @remotes;
	$watcher->get('SET fencing.enforcement = off; DELETE FROM task; DELETE FROM local; DELETE FROM local_2');
	return;
}

foreach my $case (@cases)
{
	play($case, 0, 1);
	play($case, 1, 1);
	play($case, 0, 0);
}

# A session that is not fresh: the callback of postgres_fdw may be the older or the newer one.
my $session = FencingSession->new($node);
foreach my $round (1 .. 4)
{
	my $token = $other->get(q(SELECT token FROM fencing.acquire('job', '1 hour', steal => 'always')));
	$session->get('INSERT INTO remote VALUES (0)') if $round == 2;
	$session->get('BEGIN');
	$session->get(sprintf $bind, $token);
	$session->get('INSERT INTO remote_2 VALUES (1)');
	$other->get(q(SELECT fencing.acquire('job', '1 hour', steal => 'always')));
	is($session->state_of('COMMIT'), 'TK001', "transaction $round of a session, taken over");
	is(remote_sums(), '0 0', '... the remote side is not committed');
}

# Where nothing is committed, nothing may be left in doubt either.
is($watcher->get(q(SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%')), '0', 'no remote transaction is left open');

done_testing();
