# FencingShardWorker: a worker that takes leases and works through the router, is late, and does not always stop when it
# is told to. It decides nothing about right or wrong: it notes what it asked and was told, as torture-worker does, in a
# history for each shard, since each shard's tokens are its own.
package FencingShardWorker;

use strict;
use warnings;

use FencingSession;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(CLOCK_MONOTONIC clock_gettime sleep);

# The life of every shard: none is promoted.
my $life = '00000001';

sub now_ns { return sprintf '%.0f', clock_gettime(CLOCK_MONOTONIC) * 1e9; }

# new($router, id =>, seed =>, folder =>, shard_of => { resource => shard }): in the process that it is to run in.
sub new
{
	my ($class, $router, %options) = @_;
	srand $options{seed} * 1000 + $options{id};
	my $session = FencingSession->new($router);
	my $self = bless {
		%options, session => $session, name => "$options{id}.$$", ghosts => [], requests => 0, works => 0 }, $class;
	foreach my $shard (values %{ $options{shard_of} })
	{
		open $self->{history}{$shard}, '>>', "$options{folder}/shard$shard-worker$options{id}" or die "history: $!";
	}
	return $self;
}

sub note_line
{
	my ($self, $lease, $number, $what) = @_;
	my $line = now_ns() . " $self->{name} $number $what\n";
	syswrite $self->{history}{ $self->{shard_of}{ $lease->{resource} } }, $line or die "history: $!";
	return;
}

sub chance { return rand(100) < $_[0]; }

# Ask, and note both: the columns of the row; undef when there was an error or none. $told makes of them what is noted.
sub ask
{
	my ($self, $lease, $request, $sql, $told) = @_;
	my $number = ++$self->{requests};
	$self->note_line($lease, $number, "invoke $request");
	my $row = $self->{session}->ask($sql, 120);
	my $state = $self->{session}->sqlstate;
	if ($state eq '00000')
	{
		my @columns = split /\|/, $row, -1;
		$self->note_line($lease, $number, 'ok' . (@columns && $told ? ' ' . $told->(@columns) : ''));
		return \@columns;
	}
	# What the router itself says of a shard, or a shard that goes down, tells nothing of the statement.
	my $definite = $self->{session}->errors =~ /REMOTE ERROR/ && $state !~ /^57P/;
	$self->note_line($lease, $number, $definite ? "error sqlstate=$state" : 'unknown');
	$lease->{lost} = 1 if $state =~ /^TK/;
	$lease->{unknown} = 1 if !$definite;
	sleep(rand 0.2) if !$definite;
	return undef;
}

sub present
{
	my ($self, $verb, $test, $lease) = @_;
	my $answer = $self->ask($lease, "$verb resource=$lease->{resource} token=$lease->{token}",
		"SELECT fencing.$verb('$lease->{resource}', $lease->{token})$test", sub { "value=$_[0] life=$life" });
	$lease->{lost} = 1 if $answer && $answer->[0] eq 'f';
	return;
}

sub read_state
{
	my ($self, $lease) = @_;
	my $answer = $self->ask($lease, "read resource=$lease->{resource} token=$lease->{token}",
		"SELECT * FROM state_of('$lease->{resource}')", sub { "seq=$_[0] snapshot=$_[1] life=$_[2]" });
	return 0 if !$answer;
	$lease->{seq} = $answer->[0];
	return 1;
}

sub write_state
{
	my ($self, $lease) = @_;
	my $op = "$self->{name}." . ++$self->{works};
	my $rows = 1 + int rand 4;
	my $nap = chance(25) ? rand 0.4 : 0;
	my $number = ++$self->{requests};
	# Nothing has been asked of a shard yet: the transaction is one call, which may commit it.
	$self->note_line($lease, $number, "invoke work op=$op resource=$lease->{resource} token=$lease->{token} rows=$rows"
		. " carry=bind level=autocommit durable=1 lost=" . ($lease->{lost} ? 1 : 0));
	$self->note_line($lease, $number, "ok life=$life");
	my $next = $lease->{seq} + 1;
	my $answer = $self->ask($lease, "commit op=$op",
		"SELECT work('$lease->{resource}', $lease->{token}, '$op', $self->{id}, $next, $rows, $nap)");
	$lease->{seq}++ if $answer;
	return defined $answer;
}

# One tenure: read, work, be late, write, renew; release, or just stop.
sub round
{
	my ($self) = @_;
	my $ghosts = $self->{ghosts};
	if (@$ghosts && chance(15))
	{
		my $ghost = $ghosts->[rand @$ghosts];
		$ghost->{lost} = 1;
		if (chance(20)) { $self->present('renew', ' IS NOT NULL', $ghost); }
		elsif (chance(20)) { $self->present('release', '', $ghost); }
		else { $self->write_state($ghost); }
		return;
	}
	my @resources = sort keys %{ $self->{shard_of} };
	my $lease = { resource => $resources[rand @resources], lost => 0 };
	my $steal = (qw(never never never same_holder always))[rand 5];
	my $ttl = 20 + int rand 400;
	my $wait = chance(50) ? 0 : 1 + int rand 500;
	my $answer = $self->ask($lease, "acquire resource=$lease->{resource} steal=$steal",
		"SELECT token FROM fencing.acquire('$lease->{resource}', '$ttl ms', 'worker $self->{id}', '$wait ms', '$steal')",
		sub { "token=$_[0] life=$life" });
	if (!$answer || !@$answer)
	{
		sleep(rand 0.02);
		return;
	}
	$lease->{token} = $answer->[0];
	foreach my $work (1 .. 1 + int rand 4)
	{
		last if ($work == 1 || chance(30)) && !$self->read_state($lease);
		sleep(rand 0.1) if chance(30);
		$self->present('renew', ' IS NOT NULL', $lease) if chance(30);
		last if $lease->{lost} && chance(70);
		last if !$self->write_state($lease);
	}
	# What became of a call that was not answered nobody knows: what this tenure has read is not to be built on.
	return if $lease->{unknown};
	$self->present('release', '', $lease) if chance(60);
	push @$ghosts, $lease;
	splice @$ghosts, rand @$ghosts, 1 if @$ghosts > 20;
	return;
}

# run($seconds, $go_on): rounds until the time is over.
sub run
{
	my ($self, $seconds) = @_;
	my $end = clock_gettime(CLOCK_MONOTONIC) + $seconds;
	$self->round while clock_gettime(CLOCK_MONOTONIC) < $end;
	$self->{session}->close;
	return;
}

1;
