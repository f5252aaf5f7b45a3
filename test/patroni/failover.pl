# failover.pl: under a load of workers the primary of a Patroni cluster is killed again and again, its Patroni with it or
# not, while its standby lacks the last WAL; another is promoted, and the workers go on. Asynchronous and synchronous mode.
#
#     failover.pl WORKER FAILOVERS SEED
#
# I1, no token twice, and later ones greater; I5, no stale write after a grant, and none with a token of an earlier
# epoch; every tenure ends, whether its grant was lost or not; in synchronous mode nothing that was told is lost.
use strict;
use warnings;

use FencingHistory qw(epoch_of is_over);
use FencingPatroni;
use FencingSession;
use FencingTest;
use FencingTorture;
use PostgreSQL::Test::Utils;
use Test::More;

my ($program, $failovers, $seed) = @ARGV;
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

# The standby has all that anybody was told.
sub caught_up
{
	my $lsn = $cluster->primary->query('SELECT pg_current_wal_flush_lsn()');
	until_true(sub { $cluster->standby->query("SELECT pg_last_wal_replay_lsn() >= '$lsn'") eq 't' }, 60) or die "the standby does not follow\n";
	return;
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
	caught_up();

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
		ok($load->works_on(3, 60), '... and the workers go on as well');
	}

	my $seconds = $cluster->fail_over($patroni);
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
	ok($load->works_on(3, 90), '... the workers go on');
	$cluster->bring_back;
	return;
}

# A grant and a write that the standby has.
sub settled_grant
{
	my ($session, $kept) = @_;
	my $token = acquire($session, $kept);
	is(write_kept($session, $round, $token), '00000', '... a grant and a write');
	caught_up();
	return $token;
}

# The primary's machine is suspended with a transaction open, another takes over and is granted the resource, and the
# old one wakes up and believes that it is the primary. What it commits then is lost when its Patroni is back as well; in synchronous mode nobody is told that it was committed.
sub suspend
{
	my ($load, $synchronous) = @_;
	note(($synchronous ? 'synchronous' : 'asynchronous') . ', the primary is suspended');
	my $kept = 'kept-' . ++$round;
	my $sleeper = session();
	my $before = epoch();
	my $token = settled_grant($sleeper, $kept);
	$sleeper->get('BEGIN');
	$sleeper->get("SELECT fencing.bind('$kept', $token)");
	$sleeper->get("UPDATE kept SET fence_token = $token WHERE round = $round");
	my $old = $cluster->suspend;
	$tokens->begin_life;
	is(epoch(), $before + 1, '... the other server is the primary, one epoch further');
	my $session = session();
	is_over($session, "SELECT fencing.bind('$kept', $token)", '... the tenure has ended');
	my $new = acquire($session, $kept);
	is(write_kept($session, $round, $new), '00000', '... its successor writes');
	# Only then has every worker given up its connection to the old primary.
	ok($load->works_on(3, 120), '... the workers go on');

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
	$cluster->restart_patroni;
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
	my $token = settled_grant(session(), $kept);
	$change->();
	$tokens->begin_life;
	is(epoch(), $before + 1, "$name: one epoch further");
	my $session = session();
	is($session->get("SELECT fence_token FROM kept WHERE round = $round"), $token, '... the row is there');
	is_over($session, "SELECT fencing.bind('$kept', $token)", '... the tenure has ended');
	is(epoch_of(acquire($session, $kept)), $before + 1, '... the next grant is of the new epoch');
	ok($load->works_on(3, 90), '... the workers go on');
	$cluster->bring_back;
	return;
}

# ---- what the workers' histories tell

# The rows of their logs: one list, each row a hash.
sub rows_written
{
	my $rows = session()->get(q(SELECT op, resource, coalesce(token, 0), life FROM log UNION ALL
		SELECT op, resource, coalesce(token, 0), life FROM log_plain UNION ALL SELECT op, resource, coalesce(token, 0), life FROM log_outside));
	return map { my %row; @row{qw(op resource token life)} = split /\|/; \%row } split /\n/, $rows;
}

# Grants in the order in which they were answered, and for each commit those that were answered before it was asked for:
# a committed write must not be lower than any of them.
sub stale_commits
{
	my ($works, @requests) = @_;
	my @events;
	push @events, map { { at => $_->{answered}, resource => $_->{resource}, grant => $_->{token} } } granted(@requests);
	push @events, map { { at => $_->{asked}, resource => $works->{ $_->{op} }{resource}, write => $works->{ $_->{op} }{token}, op => $_->{op} } }
	  grep { $_->{fate} eq 'ok' } committed(@requests);
	my (%highest, @stale);
	foreach my $event (sort { $a->{at} <=> $b->{at} } @events)
	{
		my $fence = \$highest{ $event->{resource} };
		$$fence = 0 if !defined $$fence;
		if (defined $event->{grant})
		{
			$$fence = $event->{grant} if $event->{grant} > $$fence;
		}
		elsif ($event->{write} < $$fence)
		{
			push @stale, "$event->{op}: token $event->{write} after $$fence";
		}
	}
	return @stale;
}

# Answers to acquire that were committed: those of a block only when its COMMIT was answered, at that time.
sub granted
{
	my (@requests) = @_;
	my %block = map { $_->{id} => $_ } grep { $_->{verb} eq 'acquire' && $_->{open} } @requests;
	my @granted = grep { $_->{verb} eq 'acquire' && !$_->{open} && $_->{fate} eq 'ok' && $_->{token} } @requests;
	foreach my $keep (grep { $_->{verb} eq 'keep' && $_->{fate} eq 'ok' } @requests)
	{
		my ($process) = split / /, $keep->{id};
		my $acquire = $block{"$process $keep->{of}"};
		push @granted, { %$acquire, answered => $keep->{answered} };
	}
	push @granted, grep { $_->{verb} eq 'advance' && $_->{fate} eq 'ok' } @requests;
	return @granted;
}

sub committed { return grep { $_->{verb} eq 'commit' && $_->{fate} ne 'error' } @_; }

# Tokens that were handed out: how many, how often one came twice, how often one was not greater than all that had
# been answered before it was asked for.
sub token_faults
{
	my (@requests) = @_;
	my @drawn = grep { $_->{verb} =~ /^(acquire|draw)$/ && $_->{fate} eq 'ok' && $_->{token} } @requests;
	my (%seen, $twice, $low);
	($twice, $low) = (0, 0);
	$twice += $seen{ $_->{token} }++ ? 1 : 0 foreach @drawn;
	my @answered = sort { $a->{answered} <=> $b->{answered} } @drawn;
	my $highest = 0;
	foreach my $draw (sort { $a->{asked} <=> $b->{asked} } @drawn)
	{
		while (@answered && $answered[0]{answered} < $draw->{asked})
		{
			my $token = shift(@answered)->{token};
			$highest = $token if $token > $highest;
		}
		$low++ if $draw->{token} <= $highest;
	}
	return (scalar @drawn, $twice, $low);
}

sub judge
{
	my ($load, $synchronous) = @_;
	my $name = $synchronous ? 'synchronous' : 'asynchronous';
	my @requests = $load->requests;
	my %works = map { $_->{op} => $_ } grep { $_->{verb} eq 'work' } @requests;
	my @rows = rows_written();
	my %written = map { $_->{op} => 1 } @rows;
	my @told = grep { $_->{fate} eq 'ok' } committed(@requests);
	my $refused = grep { ($_->{sqlstate} || '') eq 'TK001' } @requests;

	my ($drawn, $twice, $low) = token_faults(@requests);
	is("$twice $low", '0 0', "$name: no token came twice, or was lower than one before");
	is(join("\n", stale_commits(\%works, @requests)), '', '... no write was committed after a greater grant');
	my @early = map { "$_->{op}: token $_->{token} on timeline $_->{life}" }
	  grep { $_->{resource} =~ /^own/ && $_->{token} && epoch_of($_->{token}) != hex($_->{life}) - 1 } @rows;
	is(join("\n", @early), '', '... every row was written with a token of the epoch in which it was written');
	cmp_ok($refused, '>', 0, '... stale writes were tried, and refused');
	my @internal = map { "$_->{id}: $_->{sqlstate}" } grep { ($_->{sqlstate} || '') =~ /^XX/ } @requests;
	is(join("\n", @internal), '', '... and no error was internal');
	my @lost = grep { !$written{ $_->{op} } && ($synchronous ? $works{ $_->{op} }{durable} : 1) } @told;
	if ($synchronous)
	{
		is(join("\n", map { $_->{op} } @lost), '', '... no write that was told is lost');
		my %granted;
		foreach (granted(@requests))
		{
			$granted{ $_->{resource} } = $_->{token} if $_->{token} > ($granted{ $_->{resource} } || 0);
		}
		my $session = session();
		my @lower = grep { $session->get("SELECT token >= $granted{$_} FROM fencing.lookup('$_')") ne 't' } sort keys %granted;
		is(join(' ', @lower), '', '... and no grant: every fence stands where it was told, or higher');
	}
	else
	{
		cmp_ok(scalar @lost, '>', 0, '... writes that were told are lost, as asynchronous replication does');
	}
	diag(sprintf '%s: %d tokens, %d grants, %d commits, %d refusals, %d commits lost', $name, $drawn, scalar granted(@requests),
		scalar @told, $refused, scalar @lost);
	return;
}

foreach my $synchronous (0, 1)
{
	$cluster->set_synchronous($synchronous);
	my $histories = "$folder/" . ($synchronous ? 'synchronous' : 'asynchronous');
	mkdir $histories;
	my $load = FencingTorture->new(program => $program, connstr => $cluster->connstr('postgres'), folder => $histories,
		seed => $seed + $synchronous, workers => $workers);
	ok($load->works_on(3, 60), 'the workers work');
	# What is lost first differs, so that two failovers in each mode show every kind.
	my @ways = (sub { fail_over($load, $synchronous, $synchronous) }, sub { suspend($load, $synchronous) },
		sub { fail_over($load, $synchronous, !$synchronous) });
	$ways[$_ % @ways]->() foreach 0 .. $failovers - 1;
	orderly($load, 'planned switch-over', sub { $cluster->switch_over }) if !$synchronous;
	orderly($load, 'etcd is lost', sub { $cluster->lose_etcd }) if $synchronous;
	ok($load->stop, 'the workers end');
	judge($load, $synchronous);
}
is($tokens->faults, '0 0', 'no token of the test itself came twice, or too low');

done_testing();
