# FencingTorture: the workers of test/torture as the load of another test, and what their histories tell, for the tests
# of servers that somebody else manages.
package FencingTorture;

use strict;
use warnings;

use FencingSession;
use POSIX ();
use PostgreSQL::Test::Utils;

my @started;

# new(program => PATH, connstr => CONNINFO, folder => FOLDER, seed => N, workers => N, options => [...]): running workers.
sub new
{
	my ($class, %options) = @_;
	my $self = bless { histories => [], processes => [] }, $class;
	push @started, $self;
	foreach my $id (1 .. $options{workers})
	{
		my $history = "$options{folder}/worker-$id";
		push @{ $self->{histories} }, $history;
		my $process = fork;
		die "could not fork: $!" if !defined $process;
		if ($process == 0)
		{
			my @more = @{ $options{options} || [] };
			exec $options{program}, '--conninfo', $options{connstr}, '--id', $id, '--seed', $options{seed} * 100 + $id,
			  '--seconds', 86400, '--history', $history, @more or POSIX::_exit(127);
		}
		push @{ $self->{processes} }, $process;
	}
	return $self;
}

# Lets them finish what they are at, and settle what they do not know.
sub stop
{
	my ($self) = @_;
	kill 'TERM', @{ $self->{processes} };
	my $ended = until_true(sub { !grep { process_state($_) ne '' } @{ $self->{processes} } }, 60, 0.05);
	$self->end;
	return $ended;
}

sub end
{
	my ($self) = @_;
	my @processes = splice @{ $self->{processes} };
	kill 'KILL', grep { process_state($_) ne '' } @processes;
	waitpid $_, 0 foreach @processes;
	return;
}

# How many transactions each worker has been told that they are committed.
sub commits
{
	my ($self) = @_;
	return map { my $id = $_; scalar grep { $_->{worker} == $id && $_->{verb} eq 'commit' && $_->{fate} eq 'ok' } $self->requests }
	  1 .. @{ $self->{histories} };
}

# Waits until each of them has been told of so many more commits.
sub works_on
{
	my ($self, $more, $seconds) = @_;
	my @before = $self->commits;
	return until_true(
		sub {
			my @now = $self->commits;
			return !grep { $now[$_] < $before[$_] + $more } 0 .. $#now;
		}, $seconds, 0.2);
}

# Every request in the order in which they were made: verb, the values asked and answered, fate (ok, error, unknown, ''
# when there was no answer), asked and answered as nanoseconds.
sub requests
{
	my ($self) = @_;
	my (@requests, %open);
	foreach my $history (grep { -e } @{ $self->{histories} })
	{
		foreach my $line (split /\n/, slurp_file($history))
		{
			my ($time, $process, $number, $what, @rest) = split / /, $line;
			my $request = $open{"$process $number"};
			if ($what eq 'invoke')
			{
				my $verb = shift @rest;
				my ($worker) = $process =~ /^(\d+)/;
				$request = $open{"$process $number"} = { verb => $verb, worker => $worker, fate => '', asked => $time, id => "$process $number" };
				push @requests, $request;
			}
			else
			{
				@$request{ 'fate', 'answered' } = ($what, $time);
			}
			foreach (@rest)
			{
				my ($key, $value) = split /=/, $_, 2;
				$request->{$key} = $value;
			}
		}
	}
	return sort { $a->{asked} <=> $b->{asked} } @requests;
}

END
{
	my $status = $?;
	$_->end foreach @started;
	$? = $status;
}

1;
