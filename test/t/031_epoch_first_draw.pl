# 031_epoch_first_draw: the first draw under a new identity moves the database into its epoch, once and for all: whatever
# becomes of the transaction that drew, however many draw at that moment, and wherever a crash cuts the move in two (I1).
# Nobody waits for the transaction or the process that has begun it.
#
# A promotion is one change of identity, a copy of a database another; copies are cheap, so most cases use them.
# Runs against a library with stop points: a backend stops itself (SIGSTOP) between the record and the sequence.
# Caught here: a record that is a table row, or that ROLLBACK undoes; a jump under a lock that the transaction keeps, or
# by every backend anew; the sequence moved before the record; a move that nobody finishes; a finish with another target.
use strict;
use warnings;

use FencingHistory;
use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = fencing_node('primary', allows_streaming => 1);
$primary->append_conf('postgresql.conf', stop_point_conf() . own_flush_conf() . <<'CONF');
restart_after_crash = on
log_statement = none
CONF
$primary->start;
my $tokens = FencingHistory->new;
my $server = $primary;

# Database $name with the extension, some tokens, and a lease that a copy takes along. Nobody stays connected to it.
sub make_origin
{
	my ($name) = @_;
	$server->safe_psql('postgres', "CREATE DATABASE $name");
	$server->safe_psql($name, 'CREATE EXTENSION fencing');
	my $session = FencingSession->new($server, dbname => $name);
	$session->get(q(SELECT fencing.acquire('job-1', '1 hour')));
	draw($session, 300);
	$session->close;
	return;
}

# All that come back while the sessions draw at the same time; nobody may wait.
sub draw_together
{
	my ($name, @sessions) = @_;
	$_->send('SELECT fencing.next_token() FROM generate_series(1, 100)') foreach @sessions;
	my $answered = grep { $_->answered(30) && $_->sqlstate eq '00000' } @sessions;
	is($answered, scalar @sessions, "$name: " . @sessions . ' sessions draw at the same time, and none waits');
	my @drawn = map { split /\n/, $_->answer } @sessions;
	$tokens->see(@drawn);
	return @drawn;
}

sub sessions
{
	my ($count, $database) = @_;
	return map { FencingSession->new($server, dbname => $database) } 1 .. $count;
}

# One epoch for all of them, and the record says the same.
sub one_epoch
{
	my ($name, $database, $epoch, @drawn) = @_;
	my %epochs = map { epoch_of($_) => 1 } @drawn;
	is(join(',', sort keys %epochs), $epoch, "$name: one jump, all tokens are of one epoch");
	is(where($database), "$epoch $epoch", '... so the record says, and there the sequence stands');
	is($tokens->faults, '0 0', '... and no token came twice or too low');
	return;
}

# The epochs of the record and of the sequence; the server is on timeline 2.
sub where
{
	my ($database) = @_;
	return $server->safe_psql($database, q(SELECT (o.last_value & (1 << 24) - 1) - (1 << 23) + 2 || ' ' || (t.last_value >> 40)
		FROM fencing.origin_seq o, fencing.token_seq t));
}

# The session stops itself in its first draw, between the halves.
sub stop_between
{
	my ($session, $statement) = @_;
	$session->get(q(SET fencing.stop_points = 'epoch_recorded'));
	$session->send($statement || 'SELECT fencing.next_token()');
	return until_true(sub { process_state($session->pid) eq 'T' }, 30);
}

# The lease that a copy has taken along.
sub lease_is_over
{
	my ($database, $token, $name) = @_;
	is_over(FencingSession->new($server, dbname => $database), "SELECT fencing.bind('job-1', $token)", $name);
	return;
}

sub wait_for_restart
{
	my ($session) = @_;
	until_true(sub { $session->state_of('SELECT 1') eq 'lost' }) or die "the server goes on\n";
	back_again($server);
	return;
}

# ---- a promotion that has lost the last draws

$primary->safe_psql('postgres', 'CREATE EXTENSION fencing');
my $standby = standby_of($primary, 'standby');
{
	my $session = FencingSession->new($primary);
	$tokens->see(draw($session, 100));
	caught_up($primary, $standby);
	cut_off($standby);
	$tokens->see(draw($session, 600));
}
fail_over($primary, $standby);
$server = $standby;
$tokens->begin_life;
{
	my ($first) = sessions(1, 'postgres');
	ok(stop_between($first), 'promoted: the first draw stops before it moves the sequence');
	crash_server($server);
	$server->start;
	is(where('postgres'), '1 0', 'a crash leaves the sequence where it was, and the record, which a promotion does not change');

	my ($open, @others) = sessions(9, 'postgres');
	$open->get('BEGIN');
	my $token = $open->get('SELECT fencing.next_token()');
	my @drawn = draw_together('the first draw is uncommitted', @others);
	$tokens->see($token);
	$open->get('ROLLBACK');
	push @drawn, $token, draw($open, 1);
	$tokens->see($drawn[-1]);
	one_epoch('promoted', 'postgres', 1, @drawn);
}

# ---- copies: the identity is another one. Their epoch: of the source, and the distance, and the timeline.

my $source = 1;
my $target = $source + 64 + 2;
my $copies = 0;

# A new copy; its lease is that of the source.
sub copy
{
	my $name = 'copy' . ++$copies;
	$server->safe_psql('postgres', "CREATE DATABASE $name TEMPLATE origin");
	# Each copy is a database of its own.
	$tokens = FencingHistory->new;
	return $name;
}

make_origin('origin');
my $old = $server->safe_psql('origin', q(SELECT token FROM fencing.lookup('job-1')));

{
	my $name = copy();
	one_epoch('first draws', $name, $target, draw_together('first draws', sessions(8, $name)));
}
{
	my $name = copy();
	my ($first, @others) = sessions(4, $name);
	my @drawn;
	$first->get('BEGIN');
	push @drawn, $first->get(q(SELECT token FROM fencing.acquire('job-1')));
	$first->get('ROLLBACK');
	$tokens->see(@drawn);
	is($server->safe_psql($name, q(SELECT token FROM fencing.lookup('job-1'))), $old, 'the first grant is rolled back');
	lease_is_over($name, $old, '... and the lease of the source is over all the same');
	push @drawn, draw_together('rolled back', @others);
	one_epoch('rolled back', $name, $target, @drawn);
}
{
	my $name = copy();
	my ($first, @others) = sessions(4, $name);
	$first->get('BEGIN');
	my $token = $first->get('SELECT fencing.next_token()');
	my @drawn = ($token, draw_together('before the kill', @others));
	$tokens->see($token);
	kill 'KILL', $first->pid;
	wait_for_restart($others[0]);
	$tokens->begin_life;
	push @drawn, draw_together('after the kill of who drew first', sessions(3, $name));
	one_epoch('killed', $name, $target, @drawn);
}

# ---- between the halves

{
	my $name = copy();
	my ($first, @others) = sessions(5, $name);
	$first->get('BEGIN');
	ok(stop_between($first), 'the first draw stops between the halves');
	is(where($name), "$target $source", '... it is recorded, and the sequence has not moved');
	lease_is_over($name, $old, '... but the lease of the source is over');
	my @drawn = draw_together('while it is stopped', @others);
	kill 'CONT', $first->pid;
	push @drawn, $first->wait(30);
	$tokens->see($drawn[-1]);
	$first->get('ROLLBACK');
	one_epoch('stopped', $name, $target, @drawn);
}
foreach my $case (
	['the server dies', 0, sub { crash_server($server); $server->start; }],
	['the server dies after others have drawn', 2, sub { crash_server($server); $server->start; }],
	['its process dies', 0, sub { kill 'KILL', $_[0]->pid; wait_for_restart($_[1]); }])
{
	my ($how, $drawers, $kill) = @$case;
	my $name = copy();
	my ($first, $witness, @others) = sessions(2 + $drawers, $name);
	ok(stop_between($first), 'the first draw stops between the halves');
	my $record = record_of($server, $name);
	my @drawn = $drawers ? draw_together('while it is stopped', @others) : ();
	$kill->($first, $witness);
	lease_is_over($name, $old, "$how: the lease of the source is over");
	is(where($name), "$target $source", '... it is recorded, and the sequence has not moved') if !$drawers;
	$tokens->begin_life;
	push @drawn, draw_together('in the next life', sessions(2, $name));
	one_epoch("finished after $how", $name, $target, @drawn);
	is(record_of($server, $name), $record, '... by the same record');
}

# ---- fast_forward past the epoch, between its halves

foreach my $crash (0, 1)
{
	my $name = copy();
	my ($director, $cached, @others) = sessions(4, $name);
	$tokens->see(draw($cached, 1));
	my $above = ($target + 7 << 40) + 1000;
	ok(stop_between($director, "SELECT fencing.fast_forward($above)"), 'fast_forward stops between its halves');
	# It has not returned: tokens are of either epoch.
	$tokens->see(draw($cached, 1));
	my @drawn = draw_together('while it is stopped', @others);
	push @drawn, draw($cached, 3);
	$tokens->see(@drawn[-3 .. -1]);
	if ($crash)
	{
		crash_server($server);
		$server->start;
		$tokens->begin_life;
	}
	else
	{
		kill 'CONT', $director->pid;
		is($director->wait(30), $above, '... goes on, and has not lowered anything');
		$tokens->begin_life if $above >= $tokens->highest;
	}
	push @drawn, draw_together('afterwards', sessions(2, $name));
	one_epoch($crash ? 'fast_forward cut in two by a crash' : 'fast_forward', $name, $target + 7, @drawn);
	cmp_ok($tokens->highest, '>', $above, '... above what was asked for') if !$crash;
}

done_testing();
