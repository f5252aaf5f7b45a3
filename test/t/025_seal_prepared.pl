# 025_seal_prepared: I5 and I6 for PREPARE TRANSACTION, which seals: stale by then it fails with TK001, and after it the
# resource is kept until the transaction is finished, by whomever: acquire, advance and release answer in bounded time
# without it, the holder's renewals and other commits pass. COMMIT PREPARED always works. So it is after a crash.
#
# Caught here: a seal at COMMIT only, or at COMMIT PREPARED (too late to refuse); locks that do not outlive the session
# or the crash; a lock of the resource, or of the fence table, that is left behind by either end.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $slack = 2;

my $node = fencing_node('main');
$node->append_conf('postgresql.conf', "max_prepared_transactions = 10\nlog_statement = none\nautovacuum = off\n");
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fencing;
CREATE TABLE task (n int, fence_token bigint);
CREATE TABLE task_elsewhere (n int, fence_token bigint);
CREATE TABLE plain (n int);
SELECT fencing.protect('task', 'fence_token', resource => 'job-{n}');
SELECT fencing.protect('task_elsewhere', 'fence_token', resource => 'elsewhere-{n}', issuer => 'external');
CREATE FUNCTION granted(resource text) RETURNS bigint LANGUAGE sql AS $$
	SELECT token FROM fencing.acquire(resource, '1 hour', steal => 'always')
$$;
SQL
my ($session, $other) = map { FencingSession->new($node) } 1 .. 2;

sub resource_locks
{
	return $other->get(q(SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND classid = 'fencing.fence'::regclass));
}

sub prepared
{
	return $other->get('SELECT count(*) FROM pg_prepared_xacts');
}

# The work of a transaction, given the token, and how the resource is taken over meanwhile.
my $steal = q(SELECT granted('job-1'));
my @works = (
	['bound', q(SELECT fencing.bind('job-1', %s)), $steal],
	['bound, with an unguarded write', q(SELECT fencing.bind('job-1', %s); INSERT INTO plain VALUES (1)), $steal],
	['a guarded write', 'INSERT INTO task VALUES (1, %s)', $steal],
	['a guarded write in a savepoint', 'SAVEPOINT s; INSERT INTO task VALUES (1, %s); RELEASE s', $steal],
	['a token from elsewhere', 'INSERT INTO task_elsewhere VALUES (1, %s)', q(SELECT fencing.advance('elsewhere-1', %s + 1))],
	['a raise by a token from elsewhere', 'INSERT INTO task_elsewhere VALUES (1, %s + 1)', q(SELECT fencing.advance('elsewhere-1', %s + 2))]);
my $rows = 'SELECT (SELECT count(*) FROM task) + (SELECT count(*) FROM task_elsewhere) + (SELECT count(*) FROM plain)';

my $fence = 1000;
foreach my $isolation ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	foreach my $case (@works)
	{
		my ($name, $work, $take_over) = @$case;
		$fence += 10;
		my $token = $work =~ /elsewhere/ ? $fence : $other->get(q(SELECT granted('job-1')));
		$other->get("SELECT fencing.advance('elsewhere-1', $fence)");
		my $before = $other->get($rows);
		$session->get("BEGIN ISOLATION LEVEL $isolation");
		$session->get($work =~ s/%s/$token/gr);
		$other->get($take_over =~ s/%s/$token/gr);
		is($session->state_of(q(PREPARE TRANSACTION 'late')), 'TK001', "$isolation, $name: stale at PREPARE TRANSACTION");
		is(prepared() . resource_locks(), '00', '... nothing is prepared or locked');
		is($session->get($rows), $before, '... and the session goes on');
	}
}

# Prepared while the token was good.
sub kept
{
	my ($name, $token) = @_;
	foreach my $case (['never', 0], ['always', 0], ['always', 1], ['same_holder', 1])
	{
		my ($how, $wait) = @$case;
		is($other->get("SELECT count(*) FROM fencing.acquire('job-1', '1 hour', 'me', wait => '$wait s', steal => '$how')", 30), '0', "$name: acquire gets no row with wait $wait s, steal $how");
		cmp_ok($other->elapsed, '<', $wait + 1 + $slack, '... in time');
	}
	is($other->state_of("SELECT fencing.release('job-1', $token)", 30), '55P03', '... nor is the lease released');
	cmp_ok($other->elapsed, '<', 1 + $slack, '... which is said in time');
	is($other->get("SELECT fencing.renew('job-1', $token) IS NOT NULL", 30), 't', '... but renewed it is');
	$other->get("BEGIN; INSERT INTO task VALUES (1, $token)");
	is($other->state_of('COMMIT', 30), '00000', '... and other commits of the holder pass');
	is($other->get(q(SELECT count(*) FROM fencing.acquire('job-2', '1 hour', steal => 'always')), 30), '1', '... as do grants of other resources');
	return;
}

foreach my $end ('COMMIT', 'ROLLBACK')
{
	foreach my $by ('the same session', 'another session')
	{
		my $finisher = $by eq 'another session' ? $other : $session;
		my $token = $other->get(q(SELECT granted('job-1')));
		$session->get("BEGIN; SELECT fencing.bind('job-1', $token); INSERT INTO task VALUES (1); INSERT INTO plain VALUES (2)");
		is($session->state_of(q(PREPARE TRANSACTION 'work')), '00000', "a transaction is prepared, to end with $end by $by");
		kept('prepared', $token);
		is($session->get('SELECT count(*) FROM fencing.bound()'), '0', 'the session is bound to nothing');
		is($finisher->state_of("$end PREPARED 'work'"), '00000', "$end PREPARED by $by");
		is($other->get('SELECT count(*) FROM plain WHERE n = 2'), $end eq 'COMMIT' ? '1' : '0', '... does what it says');
		is(resource_locks(), '0', '... leaves no lock');
		is($other->get(q(SELECT count(*) FROM fencing.acquire('job-1', '1 hour', steal => 'always')), 30), '1', '... and the resource is granted at once');
		$other->get('DELETE FROM plain');
	}
}

# One that raises the fence: it counts when it is committed.
foreach my $end ('ROLLBACK', 'COMMIT')
{
	$other->get(q(SELECT fencing.forget('elsewhere-2'); SELECT fencing.advance('elsewhere-2', 10)));
	$session->get('BEGIN; INSERT INTO task_elsewhere VALUES (2, 20)');
	is($session->state_of(q(PREPARE TRANSACTION 'raise')), '00000', "a raise is prepared, to end with $end");
	is($other->get(q(SELECT token FROM fencing.lookup('elsewhere-2'))), '10', '... it does not count yet');
	is($other->state_of(q(SELECT fencing.advance('elsewhere-2', 30)), 30), '55P03', '... and is in the way of an advance');
	cmp_ok($other->elapsed, '<', 1 + $slack, '... in time');
	$other->get(q(SET fencing.seal_timeout = '300 ms'; BEGIN; INSERT INTO task_elsewhere VALUES (2, 15)));
	is($other->state_of('COMMIT', 30), '55P03', '... and of a commit with another token, within its timeout');
	$other->get('RESET fencing.seal_timeout');
	is($session->state_of("$end PREPARED 'raise'"), '00000', "$end PREPARED");
	is($other->get(q(SELECT token FROM fencing.lookup('elsewhere-2'))), $end eq 'COMMIT' ? '20' : '10', '... leaves the fence that it should');
	$other->get('BEGIN');
	is($other->state_of('INSERT INTO task_elsewhere VALUES (2, 15); COMMIT', 30), '00000', '... and 15 is good') if $end eq 'ROLLBACK';
	is($other->state_of('INSERT INTO task_elsewhere VALUES (2, 15)', 30), 'TK001', '... and 15 is stale') if $end eq 'COMMIT';
	$other->ask('ROLLBACK');
}

# A crash with prepared transactions.
my $token = $other->get(q(SELECT granted('job-1')));
my $third = $other->get(q(SELECT granted('job-3')));
$session->get("BEGIN; SELECT fencing.bind('job-1', $token); INSERT INTO plain VALUES (3)");
$session->get(q(PREPARE TRANSACTION 'committed later'));
$session->get("BEGIN; INSERT INTO task VALUES (3, $third); INSERT INTO plain VALUES (4)");
$session->get(q(PREPARE TRANSACTION 'rolled back later'));
$session->get('BEGIN; INSERT INTO task_elsewhere VALUES (3, 7)');
$session->get(q(PREPARE TRANSACTION 'raise'));
my $locks = resource_locks();
crash_server($node);
$node->start;
$_ = FencingSession->new($node) foreach $session, $other;
is(prepared(), '3', 'after a crash the prepared transactions are there');
is(resource_locks(), $locks, '... with all their locks');
kept('after the crash', $token);
is($other->get(q(SELECT count(*) FROM fencing.acquire('job-3', '1 hour', steal => 'always')), 30), '0', '... acquire of another such resource gets no row');
is($other->state_of(q(SELECT fencing.advance('elsewhere-3', 6)), 30), '55P03', '... nor is one from elsewhere advanced');
is($session->state_of(q(COMMIT PREPARED 'committed later')), '00000', 'one is committed');
is($session->state_of(q(ROLLBACK PREPARED 'rolled back later')), '00000', '... one rolled back');
is($session->state_of(q(COMMIT PREPARED 'raise')), '00000', '... the raise committed');
is($other->get('SELECT string_agg(n::text, \',\') FROM plain'), '3', '... and so it is in the table');
is($other->get(q(SELECT token FROM fencing.lookup('elsewhere-3'))), '7', '... and in the fence');
is(resource_locks(), '0', '... no lock is left');
cmp_ok($other->get(q(SELECT granted('job-1'))), '>', $token, '... the resources are granted at once');
cmp_ok($other->get(q(SELECT granted('job-3'))), '>', $third, '... both');

done_testing();
