# 033_epoch_standby: on a standby lookup answers, by the epoch of what it has replayed; everything else is refused at
# once with the server's own 25006, and leaves nothing. A session that has looked there and lives across the promotion
# goes on in the new epoch, as does one with a transaction open (I1, I5).
#
# Caught here: an epoch that a standby's session works out and keeps; a record or a sequence that a refused call has
# touched; a lookup that needs the running timeline of a server that writes WAL, or goes by a timeline it has not replayed.
use strict;
use warnings;

use FencingHistory;
use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = fencing_node('primary', allows_streaming => 1);
$primary->append_conf('postgresql.conf', <<'CONF');
autovacuum = off
checkpoint_timeout = 1h
log_statement = none
CONF
$primary->start;
$primary->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fencing;
CREATE TABLE task (id int PRIMARY KEY, body text, fence_token bigint);
SELECT fencing.protect('task', 'fence_token', resource => 'job-{id}');
SELECT fencing.advance('shard-1', 50);
SQL
my $tokens = FencingHistory->new;
my $session = FencingSession->new($primary);
my $job = $tokens->see($session->get(q(SELECT token FROM fencing.acquire('job-1', '1 hour', 'worker 1'))));
$session->get("INSERT INTO task VALUES (1, 'of worker 1', $job)");
my $middle = standby_of($primary, 'middle');
my $last = standby_of($middle, 'last', $primary, 'for-middle');
my $lookup = q(SELECT token, holder, expires_at > now() FROM fencing.lookup('job-1'));
my $state = q(SELECT o.last_value, o.is_called, t.last_value, t.is_called FROM fencing.origin_seq o, fencing.token_seq t);

# ---- what a standby answers and what it refuses, before and after the promotion of its upstream

sub refuses_all
{
	my ($standby, $when) = @_;
	my $asked = FencingSession->new($standby);
	my $before = $asked->get($state);
	foreach my $call (
		'fencing.next_token()', 'fencing.fast_forward(5::bigint << 40)',
		q(fencing.acquire('job-1')), q(fencing.acquire('job-1', steal => 'always')), q(fencing.acquire('new', wait => '1 minute')),
		"fencing.renew('job-1', $job)", "fencing.release('job-1', $job)",
		q(fencing.advance('shard-1', 60)), "fencing.bind('job-1', $job)", q(fencing.bind('shard-1', 50)),
		q(fencing.forget('shard-1')), q(fencing.prune('0')))
	{
		my $rows = $asked->ask("SELECT * FROM $call", 30);
		is($asked->sqlstate . "|$rows", '25006|', "$when: $call");
		cmp_ok($asked->elapsed, '<', 2, '... at once') if $asked->elapsed >= 2;
	}
	is($asked->get($state), $before, '... and the sequences are where they were');
	return;
}

caught_up($primary, $middle);
caught_up($middle, $last);
my $on_middle = FencingSession->new($middle);
my $on_last = FencingSession->new($last);
is($_->get($lookup), "$job|worker 1|t", 'a standby, and its standby: lookup shows the lease') foreach $on_middle, $on_last;
refuses_all($last, 'the last of a cascade');

# ---- a jump by fast_forward comes with the WAL

my $above = 2 << 40;
$session->get("SELECT fencing.fast_forward($above)");
caught_up($primary, $middle);
is($on_middle->get($lookup), "$job||", 'lookup shows that fast_forward has ended the lease');
$job = $tokens->see($session->get(q(SELECT token FROM fencing.acquire('job-1', '1 hour', 'worker 2'))));
caught_up($primary, $middle);
caught_up($middle, $last);
is($_->get($lookup), "$job|worker 2|t", '... and then the next') foreach $on_middle, $on_last;

# ---- the middle is promoted, with transactions open on it

my $read_only = FencingSession->new($middle);
my $snapshot = FencingSession->new($middle);
$read_only->get($_) foreach 'BEGIN', $lookup;
$snapshot->get($_) foreach 'BEGIN ISOLATION LEVEL REPEATABLE READ', $lookup, 'SAVEPOINT s';
my $fresh = FencingSession->new($middle);    # has not loaded the library
cut_off($middle);
$tokens->see(draw($session, 600));
my $lost = $tokens->see($session->get(q(SELECT token FROM fencing.acquire('job-2', '1 hour'))));
# Looks all the while, so that some look falls into the moment in which recovery ends.
my @lookers = map { FencingSession->new($middle) } 1 .. 2;
$_->send(q(DO $$ BEGIN
	WHILE (SELECT expires_at FROM fencing.lookup('job-1')) IS NOT NULL LOOP END LOOP;
END $$)) foreach @lookers;
fail_over($primary, $middle);
$tokens->begin_life;
my $ended = grep { $_->answered(30) && $_->sqlstate eq '00000' } @lookers;
is($ended, 2, 'sessions that look all the while see the lease end');

is($on_middle->get($lookup), "$job||", 'promoted: a session that has looked before sees no lease');
is_over($on_middle, "SELECT fencing.bind('job-1', $job)", '... and its bind is refused');
is_over($on_middle, "SELECT fencing.bind('job-2', $lost)", '... also that of a grant that was lost');
is_over($on_middle, "UPDATE task SET fence_token = $job WHERE id = 1", '... and its guarded write');
is_over($_, "SELECT fencing.bind('job-1', $job)", '... as is that of a session that looked in that moment') foreach @lookers;
is($on_middle->get("SELECT fencing.renew('job-1', $job)"), '', '... renew says lost');

is($read_only->get($lookup), "$job||", 'a transaction that began on the standby: lookup');
is($read_only->state_of('SELECT fencing.next_token()'), '25006', '... it stays read only');
$read_only->get('ROLLBACK');
is($snapshot->get($lookup), "$job||", '... also at REPEATABLE READ');
is($snapshot->state_of("SELECT fencing.renew('job-1', $job)"), '25006', '... and read only too');
$snapshot->get('ROLLBACK TO s');
is_over($snapshot, "SELECT fencing.bind('job-1', $job)", '... the token is over for it');
$snapshot->get('ROLLBACK');

my $first = $tokens->see($on_middle->get('SELECT fencing.next_token()'));
is(epoch_of($first), 3, 'the session draws in the new epoch');
is(epoch_of($tokens->see($_->get('SELECT fencing.next_token()'))), 3, '... and so do the others')
  foreach $read_only, $snapshot, $fresh, @lookers;
my $next = $tokens->see($read_only->get(q(SELECT token FROM fencing.acquire('job-1', '1 hour', 'worker 3'))));
is($snapshot->get($lookup), "$next|worker 3|t", 'it is granted the lease');
$read_only->get($_) foreach 'BEGIN', "SELECT fencing.bind('job-1', $next)", q(UPDATE task SET body = 'of worker 3' WHERE id = 1);
is($read_only->state_of('COMMIT'), '00000', '... and its token can be bound and written with');
is($on_middle->state_of("SELECT fencing.release('job-1', $next)"), '00000', '... and released by another session');
$next = $tokens->see($on_middle->get(q(SELECT token FROM fencing.acquire('job-1', '1 hour', 'worker 4'))));
is($tokens->faults, '0 0', 'no token came twice or too low');

# ---- the last one follows: its sessions have lived through a change of timeline

caught_up($middle, $last);
is($on_last->get($lookup), "$next|worker 4|t", 'the last of the cascade has the lease of the new epoch');
is($on_last->get(q(SELECT count(*) FROM fencing.lookup('job-2'))), '0', '... and nothing of what was lost');
refuses_all($last, 'after its upstream was promoted');

# Its upstream is promoted once more, by way of a new standby that it is turned to; nobody draws.
# The new one has no WAL from before its backup: whoever turns to it must not need any.
my $other = standby_of($middle, 'other');
caught_up($middle, $_) foreach $other, $last;
$last->append_conf('postgresql.conf', q(primary_conninfo = ') . $other->connstr . q( application_name=last') . "\n");
$last->reload;
$other->poll_query_until('postgres', q(SELECT state FROM pg_stat_replication WHERE application_name = 'last'), 'streaming')
  or die "the standby does not stream\n";
is($on_last->get($lookup), "$next|worker 4|t", 'turned to another upstream: the lease is in force');
fail_over($middle, $other);
ok(until_true(sub { $on_last->get($lookup) eq "$next||" }), '... whose promotion alone, without a draw, ends it');
my $on_other = FencingSession->new($other);
is($on_other->get($lookup), "$next||", '... on both');
is_over($on_other, "SELECT fencing.bind('job-1', $next)", '... as bind says');
$tokens->begin_life;
is(epoch_of($tokens->see($on_other->get(q(SELECT token FROM fencing.acquire('job-1'))))), 4,
	'... and the next token is of the next epoch');
is($tokens->faults, '0 0', 'no token came twice or too low');

done_testing();
