# 020_seal_never_delays: I6. A transaction that has only bound or written, however much, holds no lock of a resource: the
# resource is granted to a successor at once, without a wait, and it is the sleeper whose COMMIT fails (I5). One that
# has been granted, that is prepared, or that is stuck in its commit keeps the resource; then acquire gets no row in
# bounded time, also with steal, and while it stands by, the commits of the valid holder go on. A stream of commits
# does not starve a steal.
#
# Caught here: a lock taken at the statement; a seal that is left out, or that looks before it locks; a lock kept
# after a refused commit; an exclusive request that stands in the queue for as long as acquire waits; one that gives
# up before the commits ahead of it are over.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

# The contract's bound is wait + 1 s. What a busy test machine adds is not the extension's.
my $slack = 2;

my $node = fencing_node('main');
$node->append_conf('postgresql.conf', <<'CONF');
wal_level = replica
max_wal_senders = 2
max_prepared_transactions = 10
log_statement = none
autovacuum = off
CONF
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fencing;
CREATE TABLE task (job text, step int, fence_token bigint, PRIMARY KEY (job, step));
CREATE TABLE note (job text, body text);
CREATE TABLE plain (n int);
SELECT fencing.protect('task', 'fence_token', resource => '{job}');
SELECT fencing.protect('note', resource => '{job}');
-- Grants it again, and fills it.
CREATE FUNCTION granted(job text) RETURNS bigint LANGUAGE sql AS $$
	SELECT token FROM fencing.acquire(job, '1 hour', steal => 'always')
$$;
SQL

my ($sleeper, $other, $holder, $watcher) = map { FencingSession->new($node) } 1 .. 4;

# Locks on resources: object locks with the fence table as class.
sub locks_of
{
	my ($session) = @_;
	return $watcher->get(q(SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND classid = 'fencing.fence'::regclass AND pid = ) . $session->pid);
}

sub granted_at_once
{
	my ($resource, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	like($other->ask("SELECT granted('$resource')", 30), qr/^\d+$/, $name) or diag($other->errors);
	cmp_ok($other->elapsed, '<', $slack, '... at once');
	return $other->answer;
}

# Sleepers: what they do, given the token; all on resource 'sleepy', some on others as well.
my $insert = q(INSERT INTO task VALUES ('sleepy', 2, %s));
my @sleepers = (
	['bound only', q(SELECT fencing.bind('sleepy', %s))],
	['bound and wrote an unguarded table', q(SELECT fencing.bind('sleepy', %s); INSERT INTO plain VALUES (1))],
	['inserted', $insert],
	['updated', q(UPDATE task SET fence_token = %s WHERE job = 'sleepy')],
	['deleted', q(SET LOCAL fencing.token = %s; DELETE FROM task WHERE job = 'sleepy')],
	['wrote a table without a token column', q(SET LOCAL fencing.token = %s; INSERT INTO note VALUES ('sleepy', 'x'))],
	['wrote in a released savepoint', "SAVEPOINT s; $insert; RELEASE s"],
	['wrote beside one rolled back', "$insert; SAVEPOINT s; INSERT INTO plain VALUES (1); ROLLBACK TO s"],
	['wrote under many resources', q(SET LOCAL fencing.token = %s; INSERT INTO note SELECT 'sleepy', 'x' FROM generate_series(1, 300)),
		q(UPDATE many SET fence_token = 5 WHERE n <= 300)]);
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE many (n int PRIMARY KEY, fence_token bigint);
SELECT fencing.protect('many', 'fence_token', resource => 'many-{n}', issuer => 'external', missing => 'allow');
INSERT INTO many SELECT generate_series(1, 2000);
SQL
foreach my $isolation ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	foreach my $case (@sleepers)
	{
		my ($name, $statements, $more) = @$case;
		my $token = $other->get(q(SELECT granted('sleepy')));
		$other->get("BEGIN; SET LOCAL fencing.token = $token; DELETE FROM task; INSERT INTO task VALUES ('sleepy', 1); COMMIT");
		my $before = $other->get('SELECT (SELECT count(*) FROM plain), (SELECT count(*) FROM note), (SELECT string_agg(t::text, \' \') FROM task t)');
		$sleeper->get("BEGIN ISOLATION LEVEL $isolation");
		# The larger part comes first: there the setting must not speak for it.
		$sleeper->get($more) if defined $more;
		$sleeper->get(sprintf $statements, $token);
		is(locks_of($sleeper), '0', "$isolation, one that $name: holds no lock of a resource");
		my $next = granted_at_once('sleepy', '... its resource is granted to another one');
		is($other->get("SELECT fencing.renew('sleepy', $next) IS NOT NULL", 30), 't', '... who renews');
		# 40001 would be the server's own, and the commit would fail as well.
		is($sleeper->state_of('COMMIT', 30), 'TK001', '... and the COMMIT of the sleeper is refused');
		like($sleeper->errors, qr/Presented token $token, current token $next/, '... with both tokens');
		is(locks_of($sleeper), '0', '... and leaves no lock');
		is($other->get('SELECT (SELECT count(*) FROM plain), (SELECT count(*) FROM note), (SELECT string_agg(t::text, \' \') FROM task t)'), $before, '... nor what it wrote');
		granted_at_once('sleepy', '... nor a delay for the next one');
	}
}
is($other->get(q(SELECT count(*) FROM fencing.lookup('many-1'))), '0', 'nor has a refused commit raised the fence of another resource');

# Whoever keeps a resource: nobody else gets it, and the answer comes in time.
sub all_answer
{
	my ($resource, $name) = @_;
	foreach my $case (['never', 0], ['never', 1], ['always', 0], ['always', 1], ['same_holder', 0])
	{
		my ($steal, $wait) = @$case;
		my $rows = $other->ask("SELECT * FROM fencing.acquire('$resource', '1 hour', 'me', wait => '$wait s', steal => '$steal')", 60);
		is($rows . $other->sqlstate, '00000', "$name: acquire with wait $wait s, steal $steal gets no row and no error");
		cmp_ok($other->elapsed, '<', $wait + 1 + $slack, '... within the wait and a second');
	}
	return;
}

# The worst COMMIT of the valid holder while an acquire that waits 5 s stands by. A busy machine can stop anybody for
# a while, but not in each of six rounds; the extension would.
sub commits_go_on
{
	my ($resource, $token, $name) = @_;
	my ($best, $commits) = (60, 0);
	foreach my $round (1 .. 6)
	{
		my $worst = 0;
		$other->send("SELECT * FROM fencing.acquire('$resource', '1 hour', 'me', wait => '5 s', steal => 'always')");
		my $end = time + 3;
		while (time < $end && $worst < $best)
		{
			$holder->get("BEGIN; SELECT fencing.bind('$resource', $token); INSERT INTO note VALUES ('$resource', 'x')");
			$holder->get('COMMIT');
			$worst = $holder->elapsed if $holder->elapsed > $worst;
			$commits++;
		}
		my $complete = time >= $end && !$other->answered(0);
		$other->cancel($watcher);
		next if !$complete;
		$best = $worst if $worst < $best;
		last if $best < 0.2;
	}
	cmp_ok($best, '<', 0.2, "$name: meanwhile a commit of the valid holder takes less than 200 ms");
	cmp_ok($commits, '>', 5, "... $commits of them");
	return;
}

# An open transaction with a grant.
$other->get(q(SELECT granted('kept')));
$sleeper->get('BEGIN');
$sleeper->get(q(SELECT granted('kept')));
all_answer('kept', 'an open grant');
$sleeper->get('ROLLBACK');

# One with a renewal: it keeps the resource, but the holder's commits pass.
my $token = $sleeper->get(q(SELECT granted('renewed')));
$sleeper->get('BEGIN');
$sleeper->get("SELECT fencing.renew('renewed', $token)");
all_answer('renewed', 'an open renewal');
commits_go_on('renewed', $token, 'an open renewal');
$sleeper->get('COMMIT');

# A prepared transaction.
$token = $sleeper->get(q(SELECT granted('prepared')));
$sleeper->get("BEGIN; SELECT fencing.bind('prepared', $token); INSERT INTO note VALUES ('prepared', 'x')");
is($sleeper->state_of(q(PREPARE TRANSACTION 'work')), '00000', 'a transaction is prepared');
all_answer('prepared', 'a prepared transaction');
commits_go_on('prepared', $token, 'a prepared transaction');
is($sleeper->state_of(q(COMMIT PREPARED 'work')), '00000', 'it is committed');
granted_at_once('prepared', '... and the resource granted');

# A commit that waits for a synchronous standby that is not there, of few and of many resources.
$_->get(q(SET synchronous_commit = local)) foreach $other, $holder, $watcher;
ok(lose_standby($node, $sleeper), 'a synchronous standby is away');

sub stuck_in_commit
{
	$sleeper->send('COMMIT');
	return until_true(sub { $watcher->get('SELECT wait_event FROM pg_stat_activity WHERE pid = ' . $sleeper->pid) eq 'SyncRep' }, 30);
}

$token = $holder->get(q(SELECT granted('stuck')));
$sleeper->get('SELECT count(*) FROM plain');
$sleeper->get("BEGIN; SELECT fencing.bind('stuck', $token); INSERT INTO note VALUES ('stuck', 'x')");
ok(stuck_in_commit(), 'a commit is stuck');
all_answer('stuck', 'a stuck commit');
commits_go_on('stuck', $token, 'a stuck commit');
$watcher->get('SELECT pg_cancel_backend(' . $sleeper->pid . ')');
is($sleeper->wait(30) . $sleeper->sqlstate, '00000', 'cancelled, it is committed here');
granted_at_once('stuck', '... and the resource granted');

$token = $holder->get(q(SELECT granted('stuck')));
$sleeper->get("BEGIN; SELECT fencing.bind('stuck', $token); UPDATE many SET fence_token = 5 WHERE n <= 2000");
ok(stuck_in_commit(), 'a commit of 2,001 resources is stuck');
all_answer('stuck', 'a stuck commit of many');
all_answer('never heard of', 'a resource of whichever bucket');
$watcher->get('SELECT pg_cancel_backend(' . $sleeper->pid . ')');
is($sleeper->wait(30) . $sleeper->sqlstate, '00000', 'cancelled, it is committed here');
granted_at_once('stuck', '... and the resource granted');
granted_at_once('never heard of', '... as is the other one');
$node->append_conf('postgresql.conf', "synchronous_standby_names = ''\n");
$node->reload;

# Eight clients that commit without a pause.
my $script = PostgreSQL::Test::Utils::tempdir() . '/commits.sql';
append_to_file($script, <<'SQL');
BEGIN;
SELECT fencing.bind('busy', :token);
INSERT INTO note VALUES ('busy', 'x');
COMMIT;
SQL
foreach my $round (1 .. 3)
{
	$token = $other->get(q(SELECT granted('busy')));
	$other->get('DELETE FROM plain');
	my ($out, $err) = ('', '');
	my $clients = IPC::Run::start(['pgbench', '-n', '-M', 'prepared', '-c', 8, '-j', 1, '-T', 60, '-D', "token=$token", '-f', $script, $node->connstr('postgres')],
		'>', \$out, '2>', \$err, IPC::Run::timeout(120));
	my $notes = q(SELECT count(*) FROM note WHERE job = 'busy');
	my $at_first = $watcher->get($notes);
	ok(until_true(sub { $clients->pump_nb; $watcher->get($notes) > $at_first + 500 }, 60, 0.1), "round $round: eight clients commit");
	my $next = $other->ask(q(SELECT token FROM fencing.acquire('busy', '1 hour', wait => '10 s', steal => 'always')), 60);
	like($next, qr/^\d+$/, '... and a steal is granted');
	cmp_ok($other->elapsed, '<', 10, '... within its wait, after ' . sprintf('%.2f s', $other->elapsed));
	my $at_grant = $watcher->get($notes);
	$clients->finish;
	is(scalar(() = $err =~ /client \d+ script \d+ aborted/g), 8, '... each client is refused after that') or diag($err);
	is($watcher->get($notes), $at_grant, '... and nothing was committed after the grant');
	is(locks_of($watcher), '0', '... no lock is left');
}
is($watcher->get(q(SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND classid = 'fencing.fence'::regclass)), '0', 'no lock of a resource is left in the end');

done_testing();
