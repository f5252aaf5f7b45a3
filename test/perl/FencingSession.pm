# FencingSession: sessions that can be kept waiting, crashes, and programs on libpq, for the TAP tests.
#
# A session is a psql that reads from a pipe: send() returns at once, so that a test can hold many sessions
# in whatever state it wants, and wait() collects the answer later. Every wait has an end.
package FencingSession;

use strict;
use warnings;

use Cwd qw(realpath);
use Exporter 'import';
use File::Basename qw(dirname);
use IO::Select;
use IPC::Open3 qw(open3);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Symbol qw(gensym);
use Time::HiRes qw(sleep time);

our @EXPORT = qw(compile_libpq crash_server process_state server_processes stop_process tree_root until_true);

# What is left of this test's servers must not stay stopped, whatever went wrong.
my @nodes_seen;

# new($node, dbname => ..., user => ..., options => PGOPTIONS): a connected session. With pooled => 1 its server process
# is a pooler's, and outlives it.
sub new
{
	my ($class, $node, %options) = @_;
	my $connection = $node->connstr($options{dbname} || 'postgres');
	$connection .= " user=$options{user}" if defined $options{user};
	local $ENV{PGOPTIONS} = $options{options} if defined $options{options};
	my $stderr = gensym;
	my $process = open3(my $stdin, my $stdout, $stderr, 'psql', '-XAtq', '-F', '|', '-d', $connection, '-f', '-');
	$stdin->autoflush(1);
	my $self = bless {
		process => $process, stdin => $stdin, stdout => $stdout, stderr => $stderr,
		sent => 0, text => '', error_text => '', sqlstate => '', errors => '', waiting => 0, pooled => $options{pooled} }, $class;
	push @nodes_seen, $node;
	$self->{pid} = $self->get('SELECT pg_backend_pid();');
	return $self;
}

sub pid { return $_[0]->{pid}; }

# The SQLSTATE of the last statement sent; 'lost' when the connection is gone.
sub sqlstate { return $_[0]->{sqlstate}; }

# The rows of the last statements.
sub answer { return $_[0]->{answer}; }

# What the last statements sent to stderr: errors, warnings, notices.
sub errors { return $_[0]->{errors}; }

# Send statements and return at once. One send() at a time is outstanding.
sub send
{
	my ($self, $sql) = @_;
	die "a statement of this session is still running\n" if $self->{waiting};
	$sql =~ s/\s+\z//;
	$sql .= ';' if $sql !~ /;\z/;
	my $mark = 'answered-' . ++$self->{sent};
	my $text = "$sql\n\\echo $mark :SQLSTATE\n\\warn $mark\n";
	my $stdin = $self->{stdin};
	$self->{waiting} = 1;
	$self->{started} = time;
	print $stdin $text;    # a lost psql shows in wait()
	return;
}

# Whether the answer is there within so many seconds; the session goes on waiting if not.
sub answered
{
	my ($self, $seconds) = @_;
	return 1 if !$self->{waiting};
	my $mark = 'answered-' . $self->{sent};
	my $deadline = time + $seconds;
	my $select = IO::Select->new(grep { defined } $self->{stdout}, $self->{stderr});
	while (1)
	{
		if ($self->{text} =~ s/^\Q$mark\E (\S*)\n\z//m)
		{
			$self->{sqlstate} = $1;
			$self->{error_mark_wanted} = 1;
			$self->{answer} = $self->{text};
			$self->{text} = '';
		}
		if ($self->{error_mark_wanted} && $self->{error_text} =~ s/^\Q$mark\E\n\z//m)
		{
			$self->{errors} = $self->{error_text};
			$self->{error_text} = '';
			$self->{error_mark_wanted} = 0;
			$self->{waiting} = 0;
			$self->{elapsed} = time - $self->{started};
			$self->{answer} =~ s/\n\z//;
			return 1;
		}
		if ($select->count == 0)    # psql has ended
		{
			$self->{sqlstate} = 'lost';
			$self->{errors} = $self->{error_text};
			$self->{answer} = '';
			$self->{waiting} = 0;
			return 1;
		}
		my $rest = $deadline - time;
		return 0 if $rest <= 0;
		foreach my $handle ($select->can_read($rest))
		{
			my $target = $handle == $self->{stdout} ? \$self->{text} : \$self->{error_text};
			my $got = sysread $handle, $$target, 65536, length $$target;
			$select->remove($handle) if !$got;
		}
	}
}

# The rows of what was sent; dies when there is no answer in time.
sub wait
{
	my ($self, $seconds) = @_;
	$seconds = $PostgreSQL::Test::Utils::timeout_default if !defined $seconds;
	$self->answered($seconds) or die "no answer within $seconds s\n";
	return $self->{answer};
}

# Seconds between the last send() and the moment its answer was seen.
sub elapsed { return $_[0]->{elapsed}; }

# Send and wait: the rows, whether or not there was an error.
sub ask
{
	my ($self, $sql, $seconds) = @_;
	$self->send($sql);
	return $self->wait($seconds);
}

# Send and wait: the rows; dies when there was an error.
sub get
{
	my ($self, $sql, $seconds) = @_;
	my $rows = $self->ask($sql, $seconds);
	die "'$sql' failed: $self->{errors}\n" if $self->{sqlstate} ne '00000' || $self->{errors} =~ /^(psql:.*)?(ERROR|FATAL|PANIC):/m;
	return $rows;
}

# Send and wait: the SQLSTATE.
sub state_of
{
	my ($self, $sql, $seconds) = @_;
	$self->ask($sql, $seconds);
	return $self->{sqlstate};
}

# Cancel what the session waits for, by way of another one, and wait for the answer. The server forgets a cancel that comes in
# the very instant in which a slice of a lock wait ends: it is sent again.
sub cancel
{
	my ($self, $other) = @_;
	until_true(sub { $other->get('SELECT pg_cancel_backend(' . $self->pid . ')'); return $self->answered(2); }, 60)
	  or die "session $self->{pid} goes on\n";
	return;
}

# Close the connection; does not return before the server process has ended, if it can.
sub close
{
	my ($self) = @_;
	return if !$self->{process};
	CORE::close($_) foreach @$self{qw(stdin stdout stderr)};
	waitpid $self->{process}, 0;
	delete $self->{process};
	my $pid = $self->{pid};
	until_true(sub { process_state($pid) eq '' }, 30) if defined $pid && $self->{sqlstate} ne 'lost' && !$self->{pooled};
	return;
}

sub DESTROY
{
	my ($self) = @_;
	local ($?, $@, $!);
	return if !$self->{process};
	kill 'KILL', $self->{process};    # it may be waiting for an answer
	CORE::close($_) foreach @$self{qw(stdin stdout stderr)};
	waitpid $self->{process}, 0;
	return;
}

# Call a function every few milliseconds until it is true; false when that did not happen in time.
sub until_true
{
	my ($condition, $seconds, $pause) = @_;
	my $deadline = time + (defined $seconds ? $seconds : $PostgreSQL::Test::Utils::timeout_default);
	while (!$condition->())
	{
		return 0 if time > $deadline;
		sleep($pause || 0.005);
	}
	return 1;
}

# R, S, D, T (stopped), ...; '' when the process has ended, reaped or not.
sub process_state
{
	my ($pid) = @_;
	open my $stat, '<', "/proc/$pid/stat" or return '';
	my $line = <$stat>;
	CORE::close($stat);
	return '' if !defined $line || $line !~ /\) (\S)/ || $1 eq 'Z' || $1 eq 'X';
	return $1;
}

# stop_process($pid): SIGSTOP; returns when it has stopped indeed, with each of its threads. Until then it may still do what
# the test wants it not to.
sub stop_process
{
	my ($pid) = @_;
	kill 'STOP', $pid;
	until_true(sub { process_state($pid) eq 'T' }, 30) or die "process $pid does not stop\n";
	return;
}

# Every process of a server: all of them stand in its data directory.
sub server_processes
{
	my ($node) = @_;
	my $directory = realpath($node->data_dir);
	opendir my $proc, '/proc' or die "could not read /proc: $!";
	my @found = grep { /^\d+$/ && (readlink("/proc/$_/cwd") || '') eq $directory } readdir $proc;
	closedir $proc;
	return grep { process_state($_) ne '' } @found;
}

# kill -9 of the postmaster and, before they can do anything about it, of all its children: what no process
# has written to a file is lost, as in a power cut that spares the disk's cache. Start it again with start().
sub crash_server
{
	my ($node) = @_;
	my @processes = server_processes($node);
	$node->kill9;
	kill 'KILL', @processes;
	my $gone = until_true(
		sub {
			my @left = server_processes($node);
			kill 'KILL', @left;
			return !@left;
		}, 60);
	die "processes of the killed server are left\n" if !$gone;
	# Where nobody reaps orphans at once, the dead postmaster's lock files still count.
	unlink $node->data_dir . '/postmaster.pid', $node->host . '/.s.PGSQL.' . $node->port . '.lock';
	return;
}

# The top of the source tree.
sub tree_root
{
	return realpath(dirname(__FILE__) . '/../..');
}

# compile_libpq($name): build test/libpq/NAME.cpp against libpq; the path of the program.
sub compile_libpq
{
	my ($name) = @_;
	my $source = tree_root() . "/test/libpq/$name.cpp";
	my $program = PostgreSQL::Test::Utils::tempdir() . "/$name";
	my $include = qx(pg_config --includedir);
	my $library = qx(pg_config --libdir);
	chomp($include, $library);
	my @command = ($ENV{CXX} || 'g++', '-std=gnu++17', '-O1', '-Wall', '-Wextra', '-I', $include, $source,
		'-o', $program, '-L', $library, '-lpq', '-pthread');
	PostgreSQL::Test::Utils::system_or_bail(@command);
	return $program;
}

END
{
	my $status = $?;
	foreach my $node (@nodes_seen)
	{
		next if !-d $node->data_dir;
		kill 'CONT', grep { process_state($_) =~ /^[Tt]$/ } server_processes($node);
	}
	$? = $status;
}

1;
