# 027_seal_timeout: a COMMIT that has to wait for another transaction waits within a bound: fencing.seal_timeout, and
# lock_timeout if that is shorter, end it with 55P03; pg_cancel_backend with 57014; statement_timeout does not reach a
# COMMIT. Whatever ends it, nothing is committed, no lock is left, the session goes on with its own timeouts, and the
# resource is free. For every kind of wait: shared or exclusive, for one resource or for the bucket of many; at COMMIT,
# at PREPARE TRANSACTION, and at the end of a lone statement.
#
# Caught here: a wait without a bound, or with one for each lock and not for all of them; a timeout that is not put
# back; a server error that comes as one of ours; a lock that outlives its transaction; a claim that does.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $slack = 3;

my $node = fencing_node('main');
$node->append_conf('postgresql.conf', "max_prepared_transactions = 10\nlog_statement = none\nautovacuum = off\n");
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fencing;
CREATE TABLE plain (n int);
CREATE TABLE many (n int, fence_token bigint);
SELECT fencing.protect('many', 'fence_token', resource => 'many-{n}', issuer => 'external');
INSERT INTO many SELECT n, 10 FROM generate_series(1, 1000) n;
CREATE FUNCTION granted(resource text) RETURNS bigint LANGUAGE sql AS $$
	SELECT token FROM fencing.acquire(resource, '1 hour', steal => 'always')
$$;
SELECT granted('job');
CREATE PROCEDURE bind_and_commit() LANGUAGE plpgsql AS $$
BEGIN
	PERFORM fencing.bind('job', (SELECT token FROM fencing.lookup('job')));
	INSERT INTO plain VALUES (1);
	COMMIT;
END $$;
SQL
my ($session, $holder, $watcher) = map { FencingSession->new($node) } 1 .. 3;

# Each wait: what the waiting transaction claims, and what the other one, which is open, has done.
my $grant = q(SELECT granted('job'));
my $bind = q(SELECT fencing.bind('job', (SELECT token FROM fencing.lookup('job'))));
my @waits = (
	['shared, one resource', $bind, $grant],
	['exclusive, one resource', q(INSERT INTO many VALUES (500, 20)), q(SELECT fencing.advance('many-500', 15))],
	['exclusive, beside another raise', q(INSERT INTO many VALUES (-500, 20)), q(SELECT fencing.advance('many--500', 15))],
	['exclusive, the table locked by hand', q(INSERT INTO many VALUES (500, 20)), 'LOCK TABLE fencing.fence IN SHARE MODE'],
	['shared, many resources', q(INSERT INTO many SELECT n, 10 FROM generate_series(1, 1000) n), q(SELECT fencing.advance('many-500', 15))],
	['exclusive, many resources', q(INSERT INTO many SELECT n, 20 FROM generate_series(1, 1000) n), q(SELECT fencing.advance('many-500', 15))]);

sub is_waiting
{
	my $sql = q(SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = ) . $session->pid;
	return until_true(sub { $watcher->get($sql) eq '1' }, 30);
}

# What ends the wait: settings, or something that is done; the SQLSTATE, and after how many seconds at least.
my $long = q(SET fencing.seal_timeout = '1 min'; SET lock_timeout = 0; SET statement_timeout = 0);
my @ends = (
	['fencing.seal_timeout', q(SET fencing.seal_timeout = '600 ms'), undef, '55P03', 0.6],
	['a shorter lock_timeout', q(SET lock_timeout = '400 ms'), undef, '55P03', 0.4],
	['fencing.seal_timeout, where lock_timeout is longer', q(SET lock_timeout = '50 s'; SET fencing.seal_timeout = '400 ms'), undef, '55P03', 0.4],
	['fencing.seal_timeout, as statement_timeout does not reach a COMMIT', q(SET statement_timeout = '200 ms'; SET fencing.seal_timeout = '900 ms'), undef, '55P03', 0.9],
	['pg_cancel_backend', '', sub { $session->cancel($watcher) }, '57014', 0],
	['the end of what it waits for', '', sub { $holder->get('ROLLBACK') }, '00000', 0],
	['pg_terminate_backend', '', sub { $watcher->get('SELECT pg_terminate_backend(' . $session->pid . ')') }, 'lost', 0]);

# After whatever has ended the wait.
sub as_before
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $settings = $session->get('SELECT current_setting(\'lock_timeout\'), current_setting(\'deadlock_timeout\')');
	is($settings, $session->{expected_settings}, "$name: lock_timeout and deadlock_timeout are as they were");
	is($watcher->get('SELECT count(*) FROM pg_locks WHERE pid = ' . $session->pid), '0', '... the session holds no lock');
	is($session->get('SELECT count(*) FROM fencing.bound()'), '0', '... and is bound to nothing');
	return;
}

foreach my $wait (@waits)
{
	my ($kind, $claim, $open) = @$wait;
	foreach my $end (@ends)
	{
		my ($name, $settings, $act, $state, $least) = @$end;
		$name = "$kind: $name";
		# A worker has a session for long: it commits before.
		$session->get("$long; $settings");
		$session->{expected_settings} = $session->get('SHOW lock_timeout') . '|1s';
		$session->get('BEGIN');
		$session->get($claim);
		$session->get('INSERT INTO plain VALUES (1)');
		$holder->get('BEGIN');
		$holder->get($open);
		$session->send('COMMIT');
		if ($act)
		{
			ok(is_waiting(), "$name ends the wait of a COMMIT");
			$act->();
		}
		$session->wait(60);
		my $elapsed = $session->elapsed;
		is($session->sqlstate, $state, "$name: $state") or diag($session->errors);
		cmp_ok($elapsed, '>=', $least, sprintf '... not before, after %.2f s', $elapsed);
		cmp_ok($elapsed, '<', $least + $slack, '... and soon');
		unlike($session->errors, qr/fencing token/, '... which says nothing of a token') if $state ne '00000';
		if ($state eq 'lost')
		{
			$session->close;
			$session = FencingSession->new($node);
			$session->{expected_settings} = '0|1s';
		}
		as_before($name);
		$holder->get('ROLLBACK');
		is($watcher->get('SELECT count(*) FROM plain'), $state eq '00000' ? '1' : '0', '... ' . ($state eq '00000' ? 'it' : 'nothing') . ' is committed');
		is($watcher->get(q(SELECT count(*) FROM pg_locks WHERE locktype = 'object')), '0', '... no lock of a resource is left');
		$watcher->get(q(DELETE FROM plain; SELECT fencing.forget('many-' || n) FROM generate_series(1, 1000) n; SELECT fencing.forget('many--500')));
		$watcher->get('INSERT INTO many SELECT n, 10 FROM generate_series(1, 1000) n');
		is($session->state_of("$long; BEGIN; $bind; INSERT INTO many VALUES (500, 10); COMMIT", 30), '00000', '... and the next transaction of the session commits');
	}
}

# One bound for all of them: each of three resources is kept by somebody else, who lets go of it shortly before.
{
	my @holders = map { FencingSession->new($node) } 1 .. 3;
	my @names = map { "one-of-$_" } 1 .. 3;
	$watcher->get(join ';', map { "SELECT granted('$_')" } @names);
	# The order in which a seal locks is not ours to know: whoever it waits for lets go.
	my $holder_of = sub {
		my $pid = $watcher->get('SELECT COALESCE((pg_blocking_pids(' . $session->pid . '))[1], 0)');
		return (grep { $_->pid == $pid } @holders)[0];
	};
	$session->get(q(SET fencing.seal_timeout = '2 s'));
	$session->get('BEGIN');
	$session->get("SELECT fencing.bind('$_', (SELECT token FROM fencing.lookup('$_')))") foreach @names;
	$holders[$_]->get("BEGIN; SELECT granted('$names[$_]')") foreach 0 .. 2;
	$session->send('COMMIT');
	my $started = time;
	foreach my $number (1, 2)
	{
		sleep 0.05 until time - $started > 0.8 * $number;
		my $blocker = $holder_of->();
		$blocker->get('ROLLBACK') if $blocker;
	}
	$session->wait(60);
	is($session->sqlstate, '55P03', 'three waits, one after the other: together they are bounded');
	cmp_ok($session->elapsed, '<', 2 + $slack - 1, '... by the one fencing.seal_timeout');
	$_->get('ROLLBACK') foreach @holders;
	$_->close foreach @holders;
}

# Where there is no COMMIT statement, statement_timeout still covers the statement, and no more.
$session->get("$long; SET fencing.seal_timeout = '500 ms'");
$session->{expected_settings} = '0|1s';
foreach my $case (
	['PREPARE TRANSACTION', "BEGIN; $bind; INSERT INTO plain VALUES (1)", q(PREPARE TRANSACTION 'never')],
	['a lone statement', '', q(INSERT INTO plain SELECT 1 FROM fencing.lookup('job') l, fencing.bind('job', l.token))],
	['a procedure that commits', '', 'CALL bind_and_commit()'])
{
	my ($name, $before, $last) = @$case;
	foreach my $how ('55P03', '57014')
	{
		$session->get($how eq '57014' ? q(SET fencing.seal_timeout = '1 min') : q(SET fencing.seal_timeout = '500 ms'));
		$session->get($before) if $before;
		# A lone statement must find the old token, and its commit the open grant.
		$holder->get("BEGIN; $grant");
		$session->send($last);
		ok(is_waiting(), "$name waits");
		$session->cancel($watcher) if $how eq '57014';
		$session->wait(60);
		is($session->sqlstate, $how, "... until it is ended with $how") or diag($session->errors);
		as_before($name);
		$holder->get('ROLLBACK');
		is($watcher->get('SELECT (SELECT count(*) FROM plain) + (SELECT count(*) FROM pg_prepared_xacts)'), '0', '... nothing is committed or prepared');
	}
}

# What is only observed waits for nothing.
$session->get("$long; CREATE TABLE seen (n int, fence_token bigint); SELECT fencing.protect('seen', 'fence_token', resource => 'seen-{n}', issuer => 'external', mode => 'observe')");
$holder->get('BEGIN; LOCK TABLE fencing.fence IN SHARE MODE');
is($session->state_of('INSERT INTO seen VALUES (1, 10)', 30), '00000', 'an observed COMMIT does not wait for the table');
cmp_ok($session->elapsed, '<', $slack, '... and is done soon');
$holder->get('ROLLBACK');
is($session->state_of('INSERT INTO seen VALUES (1, 10)', 30), '00000', '... the next raises the fence');
is($watcher->get(q(SELECT token FROM fencing.lookup('seen-1'))), '10', '... as it should');

is($session->state_of('SET fencing.seal_timeout = 0'), '22023', 'a timeout of 0 would be none: it is refused');
is($session->get('RESET fencing.seal_timeout; SHOW fencing.seal_timeout'), '10s', 'the default is 10 s');

done_testing();
