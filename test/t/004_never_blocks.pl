# 004_never_blocks: I6 so far, and I10. A transaction that has only written guarded rows, or whose acquire got no
# row, delays nobody. One that has been granted a lease, or has changed one, makes others answer within their wait
# plus a second, whatever they ask; so does one that locks the table by hand, and one stuck in its commit. Waiters
# sleep, are served in order of arrival, can be cancelled and killed, and leave nothing behind; times are read when
# the lock is held.
#
# Caught here: a lock kept after an acquire without a row; a wait without a bound, for a lock or for a row; a row
# waited for while the lock is held; a queue that all poll, or that wait = 0 overtakes; a queue entry left behind;
# the clock read before the lock; an expiry counted from the call and not from the grant.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

# The contract's bound is wait + 1 s. What a busy test machine adds is not the extension's.
my $slack = 2;

my $node = fencing_node('main');
$node->append_conf('postgresql.conf', <<'CONF');
wal_level = replica
max_wal_senders = 2
log_statement = none
autovacuum = off
CONF
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fencing;
CREATE TABLE account (id int PRIMARY KEY, balance int, fence_token bigint);
SELECT fencing.protect('account', 'fence_token');
INSERT INTO account VALUES (1, 100, 1);
SQL

my @sessions = map { FencingSession->new($node) } 1 .. 6;
my ($holder, $other, $third, $fourth, $fifth, $watcher) = @sessions;
# What waits for ever shows as a wrong SQLSTATE, and the test goes on.
$_->get(q(SET statement_timeout = '40s')) foreach @sessions;

sub granted_at_once
{
	my ($session, $resource, $name) = @_;
	like($session->ask("SELECT token FROM fencing.acquire('$resource', '1 hour', steal => 'always')", 30), qr/^\d+$/, $name)
	  or diag($session->errors);
	return $session->answer;
}

# Locks of idle sessions: not one may be left of anything.
sub nothing_left
{
	my ($name) = @_;
	my $left = $watcher->get(q(
		SELECT l.locktype, l.mode, l.granted, a.state, a.query FROM pg_locks l JOIN pg_stat_activity a USING (pid)
		WHERE a.state = 'idle'));
	is($left, '', "$name: idle sessions hold no lock");
	return;
}

# Every question about a resource that another transaction has changed and not committed, or locked: $tokens are
# those of which nobody can know yet whether they are current.
sub all_answer
{
	my ($resource, $name, @tokens) = @_;
	foreach my $case (['never', 0], ['always', 0], ['always', 1], ['same_holder', 0])
	{
		my ($steal, $wait) = @$case;
		my $rows = $other->ask("SELECT * FROM fencing.acquire('$resource', '1 hour', 'me', wait => '$wait s', steal => '$steal')", 60);
		is($rows . $other->sqlstate, '00000', "$name: acquire with wait $wait s, steal $steal gets no row and no error");
		cmp_ok($other->elapsed, '<', $wait + 1 + $slack, '... within the wait and a second');
	}
	cannot_know($name, (map { ("fencing.renew('$resource', $_)", "fencing.release('$resource', $_)") } @tokens),
		"fencing.forget('$resource')");
	is($other->state_of('SELECT fencing.prune()', 60), '00000', "$name: prune skips what is in use");
	cmp_ok($other->elapsed, '<', 1 + $slack, '... without a wait');
	return;
}

sub cannot_know
{
	my ($name, @changes) = @_;
	foreach my $change (@changes)
	{
		is($other->state_of("SELECT $change", 60), '55P03', "$name: $change is told that it cannot know");
		cmp_ok($other->elapsed, '<', 1 + $slack, '... within a second');
	}
	return;
}

# A sleeper that has only written.
{
	my $token = $holder->get(q(SELECT token FROM fencing.acquire('written', '1 hour')));
	$holder->get('BEGIN');
	$holder->get("UPDATE account SET balance = 1, fence_token = $token WHERE id = 1");
	$holder->get("SET LOCAL fencing.token = $token");
	$holder->get("INSERT INTO account VALUES (2, 100)");
	my $next = granted_at_once($other, 'written', 'an open transaction that wrote guarded rows delays no acquire');
	is($other->get("SELECT fencing.renew('written', $next) IS NOT NULL", 30), 't', '... no renew');
	is($other->get("SELECT fencing.release('written', $next)", 30), 't', '... and no release');
	$holder->get('ROLLBACK');
}

# One whose acquire got no row: because of a lease, at the end of a wait, or with another error.
{
	my $token = $other->get(q(SELECT token FROM fencing.acquire('busy', '1 hour')));
	$holder->get('BEGIN');
	is($holder->get(q(SELECT count(*) FROM fencing.acquire('busy'))), '0', 'a lease stands: no row');
	is($holder->get(q(SELECT count(*) FROM fencing.acquire('busy', '1 hour', 'me', '300 ms', 'same_holder'))), '0',
		'nor after a wait');
	$holder->get('SAVEPOINT s');
	is($holder->state_of(q(SELECT fencing.acquire('busy', '0'))), '22023', 'an acquire with a bad value');
	$holder->get('ROLLBACK TO s');
	is($other->get("SELECT fencing.renew('busy', $token) IS NOT NULL", 30), 't',
		'the open transaction that got no row delays no renew');
	is($other->get("SELECT fencing.release('busy', $token)", 30), 't', '... no release');
	granted_at_once($other, 'busy', '... and no acquire');
	is($watcher->get('SELECT count(*) FROM pg_locks WHERE locktype NOT IN (\'virtualxid\', \'relation\') AND pid = ' . $holder->pid), '0', 'it holds no lock but on relations');
	$holder->get('COMMIT');
	nothing_left('after acquires without a row');
}

# One that was granted, or that changed a lease, and has not committed. A token that is being granted, and the one
# that stood before, are both neither current nor lost until then.
my $known = $holder->get(q(SELECT token FROM fencing.acquire('known', '1 hour')));
$holder->get(q(SELECT fencing.advance('external', 10)));

$holder->get('BEGIN');
my $granted = $holder->get(q(SELECT token FROM fencing.acquire('fresh', '1 hour')));
all_answer('fresh', 'a first grant, uncommitted', $granted);
cannot_know('a first grant, uncommitted', q(fencing.advance('fresh', 1000000)));
$holder->get('ROLLBACK');

$holder->get('BEGIN');
$granted = $holder->get(q(SELECT token FROM fencing.acquire('known', '1 hour', steal => 'always')));
all_answer('known', 'a later grant, uncommitted', $known, $granted);
$holder->get('ROLLBACK');

foreach my $call ("renew('known', $known)", q(forget('known')), "release('known', $known)")
{
	$holder->get('BEGIN');
	$holder->get("SELECT fencing.$call");
	all_answer('known', "$call, uncommitted", $known);
	$holder->get('ROLLBACK');
}

$holder->get('BEGIN');
$holder->get(q(SELECT fencing.advance('external', 20)));
cannot_know('an advance, uncommitted', q(fencing.advance('external', 15)), q(fencing.advance('external', 25)),
	q(fencing.forget('external')));
$holder->get('ROLLBACK');
$holder->get('BEGIN');
$holder->get(q(SELECT fencing.advance('external-fresh', 20)));
cannot_know('a first advance, uncommitted', q(fencing.advance('external-fresh', 15)), q(fencing.forget('external-fresh')));
is($other->ask(q(SELECT * FROM fencing.acquire('external-fresh', steal => 'always')), 60), '', '... and acquire gets no row');
cmp_ok($other->elapsed, '<', 1 + $slack, '... within a second');
$holder->get('ROLLBACK');
granted_at_once($other, 'known', 'after all of them are over the resource is granted at once');
nothing_left('after uncommitted changes');

# prune of a resource whose lease has ended.
{
	my $ended = $holder->get(q(SELECT token FROM fencing.acquire('ended', '1 hour')));
	$holder->get("SELECT fencing.release('ended', $ended)");
	$holder->get('BEGIN');
	cmp_ok($holder->get(q(SELECT fencing.prune('0'))), '>=', 1, 'prune forgets');
	is($other->ask(q(SELECT * FROM fencing.acquire('ended', steal => 'always')), 60), '',
		'an uncommitted prune: acquire gets no row');
	cmp_ok($other->elapsed, '<', 1 + $slack, '... within a second');
	is($other->ask(q(SELECT * FROM fencing.acquire('ended', wait => '1 s')), 60), '', '... nor after a wait');
	cmp_ok($other->elapsed, '<', 2 + $slack, '... in time');
	cannot_know('an uncommitted prune', q(fencing.forget('ended')));
	$holder->get('ROLLBACK');
}

# Locks that somebody takes by hand on our table.
$known = $other->get(q(SELECT token FROM fencing.lookup('known')));
$holder->get('BEGIN');
$holder->get(q(SELECT 1 FROM fencing.fence WHERE resource = 'known' FOR UPDATE));
all_answer('known', 'a row locked by hand', $known);
$holder->get('ROLLBACK');
$holder->get('BEGIN');
$holder->get(q(SELECT 1 FROM fencing.fence WHERE resource = 'external' FOR UPDATE));
cannot_know('a row locked by hand', q(fencing.advance('external', 1000)));
$holder->get('ROLLBACK');
$holder->get('BEGIN');
$holder->get(q(LOCK TABLE fencing.fence IN ACCESS EXCLUSIVE MODE));
is($other->ask(q(SELECT * FROM fencing.acquire('known', wait => '1 s', steal => 'always')), 60), '',
	'the table locked by hand: acquire gets no row');
like($other->sqlstate, qr/^(00000|55P03)$/, '... and, at most, an error that says why');
cmp_ok($other->elapsed, '<', 2 + $slack, '... in time');
cannot_know('the table locked by hand', "fencing.renew('known', $known)", "fencing.release('known', $known)",
	q(fencing.advance('external', 1000)), q(fencing.forget('known')));
$holder->get('ROLLBACK');
granted_at_once($other, 'known', 'granted at once after that');

# A shorter lock_timeout counts. The best of three, since the machine may be busy.
$known = $other->answer;
$holder->get('BEGIN');
$holder->get(q(SELECT fencing.acquire('known', '1 hour', steal => 'always')));
$holder->get(q(SELECT fencing.advance('external', 2000)));
$other->get(q(SET lock_timeout = '100ms'));
foreach my $change ("fencing.renew('known', $known)", "fencing.release('known', $known)",
	q(fencing.advance('external', 3000)), q(fencing.forget('known')))
{
	my $best = 60;
	foreach (1 .. 3)
	{
		is($other->state_of("SELECT $change", 60), '55P03', "lock_timeout 100 ms: $change");
		$best = $other->elapsed if $other->elapsed < $best;
	}
	cmp_ok($best, '<', 0.7, '... ends well before its own second');
}
$other->get('RESET lock_timeout');
is($other->get('SHOW lock_timeout'), '0', 'lock_timeout is what it was');

# A waiting acquire ends at once when it is cancelled, by hand or by statement_timeout.
$other->send(q(SELECT * FROM fencing.acquire('known', wait => '1 minute')));
ok(!$other->answered(1.5), 'an acquire waits');
$other->cancel($watcher);
is($other->sqlstate, '57014', '... and is cancelled');
$other->get(q(SET statement_timeout = '300ms'));
is($other->state_of(q(SELECT * FROM fencing.acquire('known', wait => '1 minute')), 30), '57014', 'statement_timeout ends a wait');
$other->get(q(SET statement_timeout = '40s'));
$holder->get('ROLLBACK');
granted_at_once($other, 'known', 'the resource is granted at once after that');

# The queue. The first in it looks every few milliseconds, all others sleep on a lock.
my $wait_30 = q(SELECT token, acquired_at FROM fencing.acquire('%s', '1 hour', 'w%s', '30 s'));
my $token = $holder->get(q(SELECT token FROM fencing.acquire('queue', '1 hour')));

sub blocked_by
{
	my ($blocked, $blocker) = @_;
	my $sql = 'SELECT ' . $blocker->pid . ' = ANY (pg_blocking_pids(' . $blocked->pid . '))';
	return until_true(sub { $watcher->get($sql) eq 't' }, 15);
}

sub is_waiting
{
	my ($session) = @_;
	my $sql = q(SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%acquire%' AND pid = ) . $session->pid;
	return until_true(sub { $watcher->get($sql) eq '1' }, 15);
}

sub cpu_ticks
{
	my ($session) = @_;
	open my $stat, '<', '/proc/' . $session->pid . '/stat' or die "no such process\n";
	my @fields = split ' ', (<$stat> =~ s/.*\) //r);
	close $stat;
	return $fields[11] + $fields[12];
}

$other->send(sprintf $wait_30, 'queue', 1);
is_waiting($other);
sleep 0.3;    # past its look, into the queue
$third->send(sprintf $wait_30, 'queue', 2);
ok(blocked_by($third, $other), 'the second waiter sleeps on a lock of the first');
$fourth->send(sprintf $wait_30, 'queue', 3);
ok(blocked_by($fourth, $third), 'the third behind the second');
my @before = map { cpu_ticks($_) } $third, $fourth;
ok(!$third->answered(2), 'they wait');
my @after = map { cpu_ticks($_) } $third, $fourth;
cmp_ok($after[0] - $before[0] + $after[1] - $before[1], '<=', 3, 'those behind the first use no processor');
is($fifth->get(q(SELECT count(*) FROM fencing.acquire('queue'))), '0', 'wait 0 beside a queue: no row');
is($fifth->get("SELECT fencing.renew('queue', $token) IS NOT NULL", 30), 't', 'a queue does not delay the holder: renew');
is($holder->get("SELECT fencing.release('queue', $token)", 30), 't', '... nor release');
my @served;
foreach my $waiter ($other, $third, $fourth)
{
	ok($waiter->answered(15), 'a waiter is served when the one before has released, long before its wait ends');
	$waiter->wait =~ /^(\d+)/ or die 'no row: ' . $waiter->errors;
	push @served, $1;
	is($fifth->get("SELECT fencing.release('queue', $1)", 30), 't', '... and releases');
}
ok($token < $served[0] && $served[0] < $served[1] && $served[1] < $served[2], 'in order of arrival');
nothing_left('after a queue');

# A waiter is woken when the lease is shortened, too.
$token = $holder->get(q(SELECT token FROM fencing.acquire('queue', '1 hour')));
$other->send(sprintf $wait_30, 'queue', 1);
is_waiting($other);
ok(!$other->answered(1.5), 'a waiter waits for an hour-long lease');
$holder->get("SELECT fencing.renew('queue', $token, '10 ms')");
ok($other->answered(15), 'the lease is shortened: the waiter is served long before its wait ends');
($token) = $other->wait =~ /^(\d+)/;

# Nobody overtakes a queue: its first is stopped here when the resource is free.
$third->send(sprintf $wait_30, 'queue', 1);
is_waiting($third);
sleep 0.3;
$fourth->send(sprintf $wait_30, 'queue', 2);
ok(blocked_by($fourth, $third), 'two wait');
kill 'STOP', $third->pid;
until_true(sub { process_state($third->pid) eq 'T' }, 10);
is($holder->state_of("SELECT fencing.release('queue', $token)", 30), '00000',
	'the resource is released while the first in the queue sleeps');
is($fifth->ask(q(SELECT * FROM fencing.acquire('queue')), 30), '', 'wait 0 does not overtake it');
is($fifth->ask(q(SELECT * FROM fencing.acquire('queue', wait => '1 s')), 30), '', 'nor does a wait, which still ends');
cmp_ok($fifth->elapsed, '<', 2 + $slack, '... in time');
kill 'CONT', $third->pid;
ok($third->answered(15), 'it wakes and is served');
my ($of_third) = $third->wait =~ /^(\d+)/;
ok($of_third, '... with a row') or diag($third->errors);

# Killed and cancelled waiters leave nothing: neither the first in the queue nor one behind it.
$other->send(sprintf $wait_30, 'queue', 1);
is_waiting($other);
sleep 0.3;
$third->send(sprintf $wait_30, 'queue', 2);
ok(blocked_by($third, $fourth), 'a queue of three again');
$other->cancel($watcher);
is($other->sqlstate, '57014', 'one behind the first is cancelled');
$watcher->get('SELECT pg_terminate_backend(' . $fourth->pid . ')');
$fourth->wait(10);
is($fourth->sqlstate, 'lost', 'the first in the queue is killed');
$holder->get("SELECT fencing.release('queue', $of_third)");
ok($third->answered(15), 'the next in the queue is served');
($token) = $third->wait =~ /^(\d+)/;
ok($token, '... with a row') or diag($third->errors);
nothing_left('after killed waiters');
$fourth = FencingSession->new($node);

# I10: the lease of one who waited longer than its time to live is a full one, from the moment of the grant.
$holder->get(q(SELECT fencing.acquire('clock', '2500 ms')));
my $lease = $other->get(q(SELECT expires_at - acquired_at = ttl, expires_at > clock_timestamp() + interval '200 ms', acquired_at
	FROM fencing.acquire('clock', '1 s', wait => '30 s')));
like($lease, qr/^t\|t\|/, 'a waiter longer than its TTL gets the full TTL');
$holder->get('BEGIN');
$holder->get(q(SELECT fencing.acquire('clock', '1 hour', steal => 'always')));
$other->send(q(SELECT expires_at - acquired_at = ttl, expires_at > clock_timestamp() + interval '200 ms', acquired_at
	FROM fencing.acquire('clock', '1 s', wait => '30 s', steal => 'always')));
ok(!$other->answered(2.5), 'one waits for an open transaction');
$holder->get('COMMIT');
like($other->wait(30), qr/^t\|t\|/, 'the same for a wait for a transaction');

# The grant's time is not before the moment in which the resource became free.
my $early = 0;
foreach my $round (1 .. 20)
{
	$holder->get('BEGIN');
	$holder->get("SELECT fencing.acquire('clock-$round', '1 hour')");
	$other->send("SELECT acquired_at FROM fencing.acquire('clock-$round', '1 hour', wait => '30 s')");
	sleep 0.06 + 0.01 * ($round % 6);
	my $free = $holder->get('SELECT clock_timestamp()');
	$holder->get('ROLLBACK');
	my $acquired = $other->wait(30);
	$early++ if $watcher->get("SELECT timestamptz '$acquired' < timestamptz '$free'") ne 'f';
}
is($early, 0, 'no grant is dated before the resource was free');

# A commit that waits for a standby that is not there: others answer in time, also those that would steal.
$_->get(q(SET synchronous_commit = local)) foreach $other, $watcher;
ok(lose_standby($node, $holder), 'a synchronous standby is away');
$holder->get(q(SET synchronous_commit = on));
$holder->send(q(SELECT token FROM fencing.acquire('stuck', '1 hour')));
ok(until_true(sub { $watcher->get('SELECT wait_event FROM pg_stat_activity WHERE pid = ' . $holder->pid) eq 'SyncRep' }, 30),
	'a grant is stuck in its commit');
all_answer('stuck', 'stuck in its commit', $watcher->get('SELECT last_value FROM fencing.token_seq'));
$watcher->get('SELECT pg_cancel_backend(' . $holder->pid . ')');
like($holder->wait(30), qr/^\d+$/, 'cancelled, it is committed here');
granted_at_once($other, 'stuck', 'and the next one is granted the resource');
nothing_left('in the end');

done_testing();
