# 030_epoch_promotion: what a promotion may have lost can neither come again nor count again. Every token of a life is
# greater than all of the lives before, those of lost WAL included; every lease and every token of an earlier epoch is
# over, also where the promoted server knows of no later grant (I1, I5). Fences, row fences and tokens from elsewhere
# stay as they are (I3).
#
# Caught here: a jump from wherever the sequence stands, which puts a server that never saw the last jump on the tokens
# of the one before; a verdict that waits for the first draw; a lease that outlives its epoch; a lost grant that is taken
# for unissued instead of stale, or a lost take-over whose predecessor counts as current again; an epoch that only lost
# WAL begins.
use strict;
use warnings;

use FencingHistory;
use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $server = fencing_node('life1', allows_streaming => 1);
$server->append_conf('postgresql.conf', <<'CONF');
autovacuum = off
checkpoint_timeout = 1h
log_statement = none
max_prepared_transactions = 10
CONF
$server->start;
$server->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fencing;
CREATE TABLE account (id int PRIMARY KEY, body text, fence_token bigint);
SELECT fencing.protect('account', 'fence_token');
CREATE TABLE task (id int PRIMARY KEY, body text, fence_token bigint);
SELECT fencing.protect('task', 'fence_token', resource => 'job-{id}');
CREATE TABLE shard (id int PRIMARY KEY, body text, fence_token bigint);
SELECT fencing.protect('shard', 'fence_token', resource => 'shard-{id}', issuer => 'external');
CREATE TABLE plain (id int PRIMARY KEY, body text);
SQL

my $tokens = FencingHistory->new;
my $life = 1;

sub granted
{
	my ($session, $resource, $more) = @_;
	return $tokens->see($session->get("SELECT token FROM fencing.acquire('$resource', '1 hour'" . ($more || '') . ')'));
}

# The next life begins on the standby: every token from here on is above all that were seen.
sub next_life
{
	my ($standby) = @_;
	fail_over($server, $standby);
	$server = $standby;
	$life++;
	$tokens->begin_life;
	return;
}

# ---- the first promotion, with everything that a promotion may lose

my $standby = standby_of($server, 'life2');
my $session = FencingSession->new($server);
my $job = granted($session, 'job-1', q(, 'worker 1'));
my $taken = granted($session, 'job-2', q(, 'worker 1'));
my $released = granted($session, 'job-3');
$session->get($_) foreach (
	"SELECT fencing.release('job-3', $released)",
	"INSERT INTO task VALUES (1, 'of worker 1', $job), (2, 'of worker 1', $taken)",
	"INSERT INTO account VALUES (1, 'of worker 1', $taken)",
	q(SELECT fencing.advance('shard-1', 50)),
	q(INSERT INTO shard VALUES (1, 'of epoch 50', 50)));
$tokens->see(draw($session, 40));
caught_up($server, $standby);
cut_off($standby);

# Lost: a take-over, a first grant, a raise of an external fence, and more draws than are logged ahead.
my $thief = granted($session, 'job-2', q(, 'worker 2', steal => 'always'));
my $lost = granted($session, 'job-4');
$session->get($_) foreach (
	"UPDATE task SET body = 'of worker 2', fence_token = $thief WHERE id = 2",
	q(SELECT fencing.advance('shard-1', 60)));
$tokens->see(draw($session, 600));
my $position = q(SELECT last_value >> 40 FROM fencing.token_seq);
next_life($standby);

$session = FencingSession->new($server);
# Verdicts, before anybody has drawn in this life.
is($session->get(q(SELECT token, holder, ttl, acquired_at, expires_at FROM fencing.lookup('job-1'))), "$job||||",
	'promoted: lookup shows the fence, and no lease');
is($session->get("SELECT fencing.renew('job-1', $job)"), '', 'renew says lost');
is($session->get("SELECT fencing.release('job-1', $job)"), 'f', 'release says that there is nothing to release');
is_over($session, "SELECT fencing.bind('job-1', $job)", 'bind refuses the token of the lease');
is_over($session, "SELECT fencing.bind('job-2', $taken)", '... that of a lease whose take-over was lost');
is_over($session, "SELECT fencing.bind('job-2', $thief)", '... that of the take-over');
is_over($session, "SELECT fencing.bind('job-3', $released)", '... that of a lease that was released');
is_over($session, "SELECT fencing.bind('job-4', $lost)", '... that of a grant that was lost');
is_over($session, "UPDATE task SET fence_token = $job WHERE id = 1", 'the guard refuses an UPDATE');
is_over($session, "UPDATE task SET fence_token = $taken WHERE id = 2", '... that of a lease whose take-over was lost');
is_over($session, "INSERT INTO task VALUES (4, 'of a lost grant', $lost)", '... an INSERT under a grant that was lost');
$session->get('BEGIN');
$session->get("SET LOCAL fencing.token = $job");
is_over($session, 'DELETE FROM task WHERE id = 1', '... and a DELETE');
$session->get('ROLLBACK');
is_over($session, "UPDATE plain SET body = '' FROM fencing.bind('job-1', $job)", 'a statement that binds is refused');
is($session->state_of("UPDATE account SET body = 'late', fence_token = $taken WHERE id = 1"), '00000',
	'a row fence knows no epoch: the same token passes');
is($session->state_of("UPDATE account SET body = 'late', fence_token = $taken - 1 WHERE id = 1"), 'TK001',
	'... a lower one does not');
is($session->get(q(SELECT token FROM fencing.lookup('shard-1'))), '50', 'the external fence is what was received');
is($session->state_of($_), '00000', "a token from elsewhere knows no epoch: $_")
  foreach 'BEGIN', q(SELECT fencing.bind('shard-1', 50)), q(UPDATE shard SET body = 'goes on' WHERE id = 1), 'COMMIT';
is($session->state_of('UPDATE shard SET fence_token = 61 WHERE id = 1'), '00000', '... a greater one raises the fence');
is($session->state_of('UPDATE shard SET fence_token = 60 WHERE id = 1'), 'TK001', '... a lower one is stale');
unlike($session->errors, qr/epoch/, '... and not because of an epoch');
is($session->state_of(q(SELECT fencing.advance('shard-1', 60))), 'TK001', '... to advance too');
is($session->get($position), '0', 'all that has moved no token');

# Grants.
my $again = granted($session, 'job-1', q(, 'worker 3'));
cmp_ok($session->elapsed, '<', 5, 'the resource is granted at once, without stealing');
is(epoch_of($again), 1, '... in the next epoch');
is($session->get(q(SELECT count(*) FROM fencing.acquire('job-1'))), '0', '... and that lease stands');
isnt($session->get("SELECT fencing.renew('job-1', $again)"), '', '... and can be renewed');
$session->get($_) foreach 'BEGIN', "SELECT fencing.bind('job-1', $again)", q(UPDATE task SET body = 'of worker 3' WHERE id = 1);
is($session->state_of('COMMIT'), '00000', '... its token can be bound and written with');
is_over($session, "SELECT fencing.bind('job-1', $job)", '... and the one before is of an earlier epoch');
is($session->state_of("SELECT fencing.bind('job-1', $again + 1)"), 'TK003', '... a later one was never issued');
is($session->get("SELECT count(*) FROM fencing.acquire('job-2', holder => 'worker 3', steal => 'same_holder')"), '1',
	'a lease is free to a caller with another label too');
$tokens->see($session->get(q(SELECT token FROM fencing.lookup('job-2'))));
granted($session, "job-$_") foreach 3, 4;
is($tokens->faults, '0 0', 'no token came twice, and all are above all of the life before');
my @told = slurp_file($server->logfile) =~ /LOG:  fencing: tokens are issued in (epoch \d+)$/mg;
is("@told", 'epoch 1', 'the log tells that once');

# ---- four more, two of them by servers that have the timeline of the life before and nothing that was drawn in it

foreach my $received ('some', 'none', 'none', 'some')
{
	my $next = standby_of($server, 'life' . ($life + 1));
	$session = FencingSession->new($server);
	$tokens->see(draw($session, 300)) if $received eq 'some';
	caught_up($server, $next);
	cut_off($next);
	my $holder = granted($session, 'job-5');
	is(epoch_of($holder), $life - 1, "life $life: its epoch is that of its timeline");
	$tokens->see(draw($session, 600));
	is($tokens->faults, '0 0', '... no token came twice, and all are above all of the lives before');
	my $waiting = FencingSession->new($server);
	is($waiting->get(q(SELECT count(*) FROM fencing.acquire('job-5'))), '0', '... and its lease stands');
	next_life($next);
	$session = FencingSession->new($server);
	is_over($session, "SELECT fencing.bind('job-5', $holder)", "... promoted with $received of its draws: its tenure is over");
}
$tokens->see(draw($session, 10));
is(epoch_of($tokens->highest), $life - 1, "life $life: its epoch is that of its timeline");

# ---- a synchronous standby loses nothing, and cannot know that

{
	my $next = standby_of($server, 'life' . ($life + 1));
	$server->append_conf('postgresql.conf', "synchronous_standby_names = '*'\nsynchronous_commit = remote_apply\n");
	$server->reload;
	$server->poll_query_until('postgres', 'SELECT sync_state FROM pg_stat_replication', 'sync') or die "no synchronous standby\n";
	$session = FencingSession->new($server);
	my $sleeper = granted($session, 'job-6');
	my $holder = granted($session, 'job-6', q(, 'worker 2', steal => 'always'));
	$session->get("INSERT INTO task VALUES (6, 'of worker 2', $holder)");
	# In doubt at the promotion: sealed before, it keeps everybody out until it is finished.
	my $doubt = granted($session, 'job-7');
	$session->get($_) foreach 'BEGIN', "INSERT INTO task VALUES (7, 'in doubt', $doubt)", q(PREPARE TRANSACTION 'in doubt');
	next_life($next);
	$session = FencingSession->new($server);
	is($session->get(q(SELECT token FROM fencing.lookup('job-6'))), $holder, 'a synchronous standby has the last grant');
	is($session->get('SELECT count(*) FROM task WHERE id = 6'), '1', '... and the last write');
	is_over($session, "SELECT fencing.bind('job-6', $sleeper)", '... the token before it is over');
	is_over($session, "SELECT fencing.bind('job-6', $holder)", '... and so is the last one');
	is($session->get(q(SELECT count(*) FROM fencing.acquire('job-7'))), '0',
		'what a prepared transaction has written under is not granted until it is finished');
	is($session->state_of(q(ROLLBACK PREPARED 'in doubt')), '00000', '... it can be rolled back');
	cmp_ok(granted($session, 'job-7'), '>', $doubt, '... and then it is');
	is(epoch_of(granted($session, 'job-6')), $life - 1, '... and the epoch moves all the same');
}

# ---- a standby's standby: its upstream is promoted, then it is

{
	my $middle = standby_of($server, 'life' . ($life + 1));
	my $last = standby_of($middle, 'life' . ($life + 2), $server, 'for-' . $middle->name);
	my $first = $server;
	$session = FencingSession->new($first);
	my $holder = granted($session, 'job-8');
	caught_up($first, $middle);
	cut_off($middle);
	granted($session, 'job-8', q(, steal => 'always'));
	$tokens->see(draw($session, 600));
	next_life($middle);
	$session = FencingSession->new($server);
	is_over($session, "SELECT fencing.bind('job-8', $holder)", 'the middle of a cascade is promoted: the tenure is over');
	my $successor = granted($session, 'job-8');
	caught_up($middle, $last);
	is($last->safe_psql('postgres', q(SELECT token FROM fencing.lookup('job-8'))), $successor,
		'... the last one follows it');
	cut_off($last);
	$tokens->see(draw($session, 600));
	next_life($last);
	$session = FencingSession->new($server);
	is_over($session, "SELECT fencing.bind('job-8', $successor)", 'the last one is promoted: over again');
	$tokens->see(draw($session, 10));
	granted($session, 'job-8');
}
is($tokens->faults, '0 0', 'of ' . $tokens->count . " tokens of $life lives none came twice or too low");
is($server->safe_psql('postgres', q(SELECT token FROM fencing.lookup('shard-1'))), '61',
	'and the external fence is where it was');

done_testing();
