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
use FencingPatroni;
use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

use lib tree_root() . '/test/torture/perl';
use TortureWorkers;

my ($programs, $failovers, $seed) = @ARGV;
$SIG{TERM} = sub { exit 143; };
my $folder = $ENV{TMPDIR};
my $workers = 4;
my $own = 6;
my $tokens = FencingHistory->new;

my $cluster = FencingPatroni->new($folder, fencing_conf());
{
	my $schema = tree_root() . '/test/torture/schema.sql';
	IPC::Run::run(['psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-v', "own=$own", '-v', 'outside=2', '-d', $cluster->connstr('postgres'),
		'-f', $schema, '-c', 'CREATE TABLE kept (round int PRIMARY KEY, fence_token bigint)',
		'-c', q(SELECT fencing.protect('kept', 'fence_token', resource => 'kept-{round}'))], '>', '/dev/null')
	  or die "the schema is not there\n";
}
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
	my $now = now();
	my $lsn = $cluster->primary->query('SELECT pg_current_wal_flush_lsn()');
	until_true(sub { $cluster->standby->query("SELECT pg_last_wal_replay_lsn() >= '$lsn'") eq 't' }, 60) or die "the standby does not follow\n";
	return $now;
}

my $round = 0;

# One failover: a grant that the standby has, and one that it cannot have; the primary dies; what has become of both.
sub fail_over
{
	my ($load, $synchronous, $patroni) = @_;
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
		works_on($load, '... and the workers go on as well');
	}

	my $seconds = note_fault($load, $patroni ? 'server_and_patroni' : 'server', $synchronous ? undef : $safe,
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
	works_on($load, '... the workers go on');
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
	my ($load, $synchronous) = @_;
	note(($synchronous ? 'synchronous' : 'asynchronous') . ', the primary is suspended');
	my $kept = 'kept-' . ++$round;
	my $sleeper = session();
	my $before = epoch();
	my ($token, $safe) = settled_grant($sleeper, $kept);
	$sleeper->get('BEGIN');
	$sleeper->get("SELECT fencing.bind('$kept', $token)");
	$sleeper->get("UPDATE kept SET fence_token = $token WHERE round = $round");
	my $old = note_fault($load, 'suspended', $synchronous ? undef : $safe, sub { $cluster->suspend });
	$tokens->begin_life;
	is(epoch(), $before + 1, '... the other server is the primary, one epoch further');
	my $session = session();
	is_over($session, "SELECT fencing.bind('$kept', $token)", '... the tenure has ended');
	my $new = acquire($session, $kept);
	is(write_kept($session, $round, $new), '00000', '... its successor writes');
	# Only then has every worker given up its connection to the old primary.
	works_on($load, '... the workers go on');

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
	my ($load, $name, $change) = @_;
	note($name);
	my $kept = 'kept-' . ++$round;
	my $before = epoch();
	my ($token) = settled_grant(session(), $kept);
	note_fault($load, $name =~ tr/ /_/r, undef, $change);
	$tokens->begin_life;
	is(epoch(), $before + 1, "$name: one epoch further");
	my $session = session();
	is($session->get("SELECT fence_token FROM kept WHERE round = $round"), $token, '... the row is there');
	is_over($session, "SELECT fencing.bind('$kept', $token)", '... the tenure has ended');
	is(epoch_of(acquire($session, $kept)), $before + 1, '... the next grant is of the new epoch');
	works_on($load, '... the workers go on');
	$cluster->bring_back;
	return;
}

# ---- the load, and what its histories tell

# The workers of one mode, in a folder of their own, and what was done to them, for the checker.
sub start_load
{
	my ($name) = @_;
	my $directory = "$folder/$name";
	mkdir $directory;
	my $load = TortureWorkers->new("$programs/torture-worker", $directory, count => $workers, seed => $seed,
		conninfo => $cluster->connstr('postgres'));
	$load->start_all;
	return $load;
}

# Waits until each worker has been told of three more commits.
sub works_on
{
	my ($load, $name) = @_;
	my $commits = sub {
		my %asked;
		my $count = 0;
		foreach (split /\n/, slurp_file($_[0]))
		{
			my (undef, $process, $number, $what, $verb) = split / /;
			$asked{"$process $number"} = 1 if $what eq 'invoke' && $verb eq 'commit';
			$count++ if $what eq 'ok' && delete $asked{"$process $number"};
		}
		return $count;
	};
	until_true(sub { $load->histories == $workers }, 30) or die "a worker has no history\n";
	my %before = map { $_ => $commits->($_) } $load->histories;
	return ok(until_true(sub { !grep { $commits->($_) < $before{$_} + 3 } $load->histories }, 120, 0.2), $name);
}

# Notes for the checker what happens while the function runs. Commits that were acknowledged after $safe may be lost.
my $faults = 0;
sub note_fault
{
	my ($load, $kind, $safe, $function) = @_;
	my $number = ++$faults;
	append_to_file("$load->{directory}/nemesis", now() . " nemesis $number invoke fault kind=$kind" . ($safe ? " safe=$safe" : '') . "\n");
	my @answer = $function->();
	append_to_file("$load->{directory}/nemesis", now() . " nemesis $number ok\n");
	return $answer[0];
}

# As the workers note it.
sub now { return int(clock_gettime(CLOCK_MONOTONIC) * 1_000_000_000); }

sub judge
{
	my ($load, $name) = @_;
	is($load->finish(90), 0, "$name: the workers come to an end");
	# What a worker has left prepared it has finished, on whichever server.
	is(session()->get('SELECT count(*) FROM pg_prepared_xacts'), 0, '... nothing is left prepared');
	is(session()->get(q(SELECT count(*), string_agg(op, ' ') FROM log
		WHERE resource LIKE 'own-%' AND token >> 40 <> ('x' || life)::bit(32)::int - 1)), '0|',
		'... every row was written with a token of the epoch in which it was written');
	my $dump = "$load->{directory}/dump";
	my $begun = now();
	my ($tables, $report) = ('', '');
	IPC::Run::run(['psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $cluster->connstr('postgres'), '-f', tree_root() . '/test/torture/dump.sql'],
		'>', \$tables) or die "no dump\n";
	append_to_file($dump, "dump $begun " . now() . ' ' . session()->get('SELECT life()') . "\n$tables");
	my $clean = IPC::Run::run([ "$programs/torture-checker", '--dump', $dump, "$load->{directory}/nemesis", $load->histories ],
		'>', \$report, '2>&1');
	ok($clean, '... the checker finds no violation');
	diag("$name:\n$report");
	like($report, qr/ TK001 [1-9]/, '... and stale writes were tried, and refused');
	return;
}

foreach my $synchronous (0, 1)
{
	$cluster->set_synchronous($synchronous);
	my $name = $synchronous ? 'synchronous' : 'asynchronous';
	my $load = start_load($name);
	works_on($load, "$name: the workers work");
	# What is lost first differs, so that two failovers in each mode show every kind.
	my @ways = (sub { fail_over($load, $synchronous, $synchronous) }, sub { suspend($load, $synchronous) },
		sub { fail_over($load, $synchronous, !$synchronous) });
	$ways[$_ % @ways]->() foreach 0 .. $failovers - 1;
	orderly($load, 'planned switch-over', sub { $cluster->switch_over }) if !$synchronous;
	orderly($load, 'etcd is lost', sub { $cluster->lose_etcd }) if $synchronous;
	judge($load, $name);
}
is($tokens->faults, '0 0', 'no token of the test itself came twice, or too low');

done_testing();
