# TortureWorkers: the processes of torture-worker, each with its id, its history, and the seeds of its lives.
package TortureWorkers;

use strict;
use warnings;

use FencingSession qw(process_state until_true);
use POSIX ();

# new($program, $directory, count => N, seed => N, conninfo => text, options => [...]): none is running yet.
sub new
{
	my ($class, $program, $directory, %options) = @_;
	return bless { program => $program, directory => $directory, running => {}, lives => 0, %options }, $class;
}

sub history { return "$_[0]->{directory}/worker-$_[1]"; }
sub histories { my ($self) = @_; return grep { -e } map { $self->history($_) } 1 .. $self->{count}; }

# It works until it is told to end.
sub start
{
	my ($self, $id) = @_;
	my $seed = $self->{seed} * 100_000 + ++$self->{lives};
	my $process = fork;
	die "fork: $!" if !defined $process;
	if ($process == 0)
	{
		open STDERR, '>>', "$self->{directory}/worker-$id.stderr" or POSIX::_exit(2);
		# It must not outlive the nemesis, however that ends.
		exec 'setpriv', '--pdeathsig', 'KILL', $self->{program}, '--conninfo', $self->{conninfo}, '--id', $id, '--seed', $seed, '--seconds', 1_000_000,
		  '--history', $self->history($id), @{ $self->{options} || [] }
		  or POSIX::_exit(2);
	}
	$self->{running}{$id} = $process;
	return;
}

sub start_all
{
	my ($self) = @_;
	$self->start($_) foreach 1 .. $self->{count};
	return;
}

sub signal
{
	my ($self, $id, $signal) = @_;
	kill $signal, $self->{running}{$id};
	return;
}

# kill -9, and a new process with the same id.
sub replace
{
	my ($self, $id) = @_;
	kill 'KILL', $self->{running}{$id};
	waitpid $self->{running}{$id}, 0;
	$self->start($id);
	return;
}

# The ids whose process has ended by itself: none should.
sub fallen
{
	my ($self) = @_;
	return grep { process_state($self->{running}{$_}) eq '' } keys %{ $self->{running} };
}

# Each ends when it knows all that it can know. Those that do not are killed; how many.
sub finish
{
	my ($self, $seconds) = @_;
	my @processes = values %{ $self->{running} };
	kill 'CONT', @processes;
	kill 'TERM', @processes;
	until_true(sub { !grep { process_state($_) ne '' } @processes }, $seconds, 0.05);
	my @left = grep { process_state($_) ne '' } @processes;
	kill 'KILL', @left;
	waitpid $_, 0 foreach @processes;
	$self->{running} = {};
	return scalar @left;
}

sub DESTROY
{
	my ($self) = @_;
	local ($?, $@, $!);
	kill 'KILL', $_ foreach values %{ $self->{running} };
	waitpid $_, 0 foreach values %{ $self->{running} };
	return;
}

1;
