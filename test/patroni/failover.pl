# failover.pl: under a load of workers the primary of a Patroni cluster is killed again and again, its Patroni with it or
# not, while its standby lacks the last WAL; another is promoted, and the workers go on. Asynchronous and synchronous mode.
#
#     failover.pl PROGRAMS FAILOVERS SEED
#
# I1, no token twice, and later ones greater; I5, no stale write after a grant, and none with a token of an earlier
# epoch; every tenure ends, whether its grant was lost or not; in synchronous mode nothing that was told is lost.
use strict;
use warnings;

use FencingHistory qw(epoch_of is_over);
use FencingLoad;
use FencingPatroni;
use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my ($programs, $failovers, $seed) = @ARGV;
$SIG{TERM} = sub { exit 143; };
my $folder = $ENV{TMPDIR};
my $tokens = FencingHistory->new;
my $load;

my $cluster = FencingPatroni->new($folder, fencing_conf());
FencingLoad::make_tables($cluster->connstr('postgres'));
IPC::Run::run(['psql', '-Xq', '-d', $cluster->connstr('postgres'), '-c', 'CREATE TABLE kept (round int PRIMARY KEY, fence_token bigint)',
	'-c', q(SELECT fencing.protect('kept', 'fence_token', resource => 'kept-{round}'))], '>', '/dev/null') or die "no table\n";
note('seed ' . $seed);

# Everything that one connection to whoever is the primary says.
sub session { return FencingSession->new($cluster); }

sub epoch { return $cluster->primary->query(q(SELECT ('x' || life())::bit(32)::int - 1)); }

# The session's grant of the resource, as every client that is told of one.
sub acquire
{
	my ($session, $resource) = @_;
	return $tokens->see($session->get("SELECT token FROM fencing.acquire('$resource', '1 hour', steal => 'always')"));
}

sub write_kept
{
	my ($session, $round, $token) = @_;
	return $session->state_of("INSERT INTO kept VALUES ($round, $token) ON CONFLICT (round) DO UPDATE SET fence_token = $token");
}

# The standby has all that anybody was told until now; the time, as the workers note it.
sub caught_up
{
	my $now = FencingLoad::now();
	my $lsn = $cluster->primary->query('SELECT pg_current_wal_flush_lsn()');
	until_true(sub { $cluster->standby->query("SELECT pg_last_wal_replay_lsn() >= '$lsn'") eq 't' }, 60) or die "the standby does not follow\n";
	return $now;
}

my $round = 0;

# One failover: a grant that the standby has, and one that it cannot have; the primary dies; what has become of both.
sub fail_over
{
	my ($synchronous, $patroni) = @_;
	my $name = ($synchronous ? 'synchronous' : 'asynchronous') . ', ' . ($patroni ? 'server and Patroni' : 'server') . ' killed';
	my $kept = 'kept-' . ++$round;
	my $session = session();
	my $before = epoch();
	my $arrived = acquire($session, $kept);
	is(write_kept($session, $round, $arrived), '00000', "$name: a grant and a write");
	my $safe = caught_up();

	$cluster->cut_off_standby;
	my $lost;
	if ($synchronous)
	{
		$session->send("SELECT token FROM fencing.acquire('$kept', '1 hour', steal => 'always')");
		my $waits = q{SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%acquire(''kept-%'};
		ok(until_true(sub { $cluster->primary->query($waits) eq '1' }, 30), '... without the standby nobody is told of a grant');
		# It is stuck in its COMMIT, and has no answer for another either (I6).
		my $other = session();
		is($other->get("SELECT count(*) FROM fencing.acquire('$kept', wait => '100 ms', steal => 'always')"), 0, '... and no other is granted it');
	}
	else
	{
		$lost = acquire($session, $kept);
		is(write_kept($session, $round, $lost), '00000', '... a grant and a write that the standby does not have');
		$load->works_on(3, '... and the workers go on as well');
	}

	my $seconds = $load->fault($patroni ? 'server and Patroni' : 'server', $synchronous ? undef : $safe,
		sub { $cluster->fail_over($patroni) });
	note(sprintf '%s: the other server is the primary after %.1f s', $name, $seconds);
	$tokens->begin_life;
	is($session->wait, '', '... the grant that waited was never told') if $synchronous;
	$session = session();
	is(epoch(), $before + 1, '... the other server is the primary, one epoch further');
	is($session->get("SELECT token FROM fencing.lookup('$kept')"), $arrived, '... it has the fence of the grant that had arrived');
	is($session->get("SELECT fence_token FROM kept WHERE round = $round"), $arrived, '... and the row');
	foreach my $token ($arrived, $lost ? $lost : ())
	{
		my $which = $token == $arrived ? 'that arrived' : 'that was lost';
		is($session->get("SELECT fencing.renew('$kept', $token) IS NULL"), 't', "... the grant $which: no renew");
		is($session->get("SELECT fencing.release('$kept', $token)"), 'f', '... no release');
		is_over($session, "SELECT fencing.bind('$kept', $token)", '... no bind');
		is_over($session, "UPDATE kept SET fence_token = $token WHERE round = $round", '... no write');
	}
	my $new = acquire($session, $kept);
	is(epoch_of($new), $before + 1, '... the next grant is of the new epoch');
	is(write_kept($session, $round, $new), '00000', '... and its holder writes');
	$load->works_on(3, '... the workers go on');
	$cluster->bring_back;
	return;
}

# A grant and a write that the standby has.
sub settled_grant
{
	my ($session, $kept) = @_;
	my $token = acquire($session, $kept);
	is(write_kept($session, $round, $token), '00000', '... a grant and a write');
	return ($token, caught_up());
}

# The primary's machine is suspended with a transaction open, another takes over and is granted the resource, and the
# old one wakes up and believes that it is the primary, until its watchdog resets it. What it has committed by then is
# lost; in synchronous mode nobody is told that it was committed.
sub suspend
{
	my ($synchronous) = @_;
	note(($synchronous ? 'synchronous' : 'asynchronous') . ', the primary is suspended');
	my $kept = 'kept-' . ++$round;
	my $sleeper = session();
	my $before = epoch();
	my ($token, $safe) = settled_grant($sleeper, $kept);
	$sleeper->get('BEGIN');
	$sleeper->get("SELECT fencing.bind('$kept', $token)");
	$sleeper->get("UPDATE kept SET fence_token = $token WHERE round = $round");
	my $old = $load->fault('suspended', $synchronous ? undef : $safe, sub { $cluster->suspend });
	$tokens->begin_life;
	is(epoch(), $before + 1, '... the other server is the primary, one epoch further');
	my $session = session();
	is_over($session, "SELECT fencing.bind('$kept', $token)", '... the tenure has ended');
	my $new = acquire($session, $kept);
	is(write_kept($session, $round, $new), '00000', '... its successor writes');
	# Nobody may be left who waits for the old primary.
	$load->replace_all;
	$load->works_on(3, '... the workers go on');

	$cluster->wake_server;
	$sleeper->send('COMMIT');
	if ($synchronous)
	{
		ok(until_true(sub { $old->query('SELECT wait_event FROM pg_stat_activity WHERE pid = ' . $sleeper->pid) eq 'SyncRep' }, 30),
			'... the old primary wakes up: the COMMIT of the sleeper waits for a standby');
	}
	else
	{
		$sleeper->wait;
		is($sleeper->sqlstate, '00000', '... the old primary wakes up: it commits what it cannot know to be stale');
	}
	$cluster->reset_machine;
	if ($synchronous)
	{
		$sleeper->wait;
		is($sleeper->sqlstate, 'lost', '... and is never told to be committed');
	}
	$cluster->bring_back;
	caught_up();
	my $row = "SELECT fence_token FROM kept WHERE round = $round";
	is(join(' ', map { $_->query($row) } $cluster->nodes), "$new $new", '... nothing of it is left: both servers have the write of the successor');
	return;
}

# A change of the primary in which nothing is lost: every tenure ends all the same.
sub orderly
{
	my ($name, $change) = @_;
	note($name);
	my $kept = 'kept-' . ++$round;
	my $before = epoch();
	my ($token) = settled_grant(session(), $kept);
	$load->fault($name, undef, $change);
	$tokens->begin_life;
	is(epoch(), $before + 1, "$name: one epoch further");
	my $session = session();
	is($session->get("SELECT fence_token FROM kept WHERE round = $round"), $token, '... the row is there');
	is_over($session, "SELECT fencing.bind('$kept', $token)", '... the tenure has ended');
	is(epoch_of(acquire($session, $kept)), $before + 1, '... the next grant is of the new epoch');
	$load->works_on(3, '... the workers go on');
	return;
}

$load = FencingLoad->new(programs => $programs, directory => "$folder/histories", count => 4, seed => $seed,
	conninfo => $cluster->connstr('postgres'));
$load->works_on(3, 'the workers work');
foreach my $synchronous (0, 1)
{
	$cluster->set_synchronous($synchronous);
	# What is lost first differs, so that two failovers in each mode show every kind.
	my @ways = (sub { fail_over($synchronous, $synchronous) }, sub { suspend($synchronous) }, sub { fail_over($synchronous, !$synchronous) });
	$ways[$_ % @ways]->() foreach 0 .. $failovers - 1;
	orderly('planned switch-over', sub { $cluster->switch_over }) if !$synchronous;
	orderly('etcd is lost', sub { $cluster->lose_etcd }) if $synchronous;
}
$load->judge('failovers by Patroni', $cluster->connstr('postgres'));
# What a worker has left prepared it has finished, on whichever server.
is(session()->get('SELECT count(*) FROM pg_prepared_xacts'), 0, '... nothing is left prepared');
is(session()->get(q(SELECT count(*), string_agg(op, ' ') FROM log
	WHERE resource LIKE 'own-%' AND token >> 40 <> ('x' || life)::bit(32)::int - 1)), '0|',
	'... every row was written with a token of the epoch in which it was written');
is($tokens->faults, '0 0', 'no token of the test itself came twice, or too low');

done_testing();
