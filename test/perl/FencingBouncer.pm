# FencingBouncer: a PgBouncer in front of a test's server, for the tests of what passes from one client to the next.
package FencingBouncer;

use strict;
use warnings;

use FencingSession;
use IO::Socket::INET;
use IPC::Run;
use POSIX ();
use PostgreSQL::Test::Utils;

my @started;

# new($node, settings => TEXT, databases => TEXT, users => [NAMES]): a running PgBouncer with pools for the given lines
# of its section [databases]; CONNECTION stands in them for the server. Pools are per user and database, in
# transaction mode unless a line says otherwise.
sub new
{
	my ($class, $node, %options) = @_;
	my $owner = getpwuid $<;
	my $folder = PostgreSQL::Test::Utils::tempdir_short();
	my $databases = $options{databases};
	my $server = 'host=' . $node->host . ' port=' . $node->port;
	$databases =~ s/CONNECTION/$server/g;
	my $self = bless {
		node => $node, folder => $folder, port => free_port(), log => "$folder/log" }, $class;
	append_to_file("$folder/users", join '', map { qq("$_" ""\n) } $owner, @{ $options{users} || [] });
	append_to_file("$folder/pgbouncer.ini", <<"INI" . ($options{settings} || ''));
[databases]
$databases
[pgbouncer]
listen_port = $self->{port}
unix_socket_dir = $folder
auth_type = trust
auth_file = $folder/users
admin_users = $owner
pool_mode = transaction
logfile = $self->{log}
INI
	push @started, $self;
	$self->start;
	return $self;
}

sub start
{
	my ($self) = @_;
	my $process = fork;
	die "could not fork: $!" if !defined $process;
	if ($process == 0)
	{
		# It writes to its log file; the copy on stderr would look like the test's own.
		open STDOUT, '>', '/dev/null';
		open STDERR, '>&', \*STDOUT;
		exec 'pgbouncer', '-q', "$self->{folder}/pgbouncer.ini" or POSIX::_exit(127);
	}
	$self->{process} = $process;
	until_true(sub { -S $self->socket && eval { $self->version } || $self->ended }, 60) && !$self->ended
	  or die "pgbouncer did not start:\n" . slurp_file($self->{log});
	return;
}

sub socket { return "$_[0]->{folder}/.s.PGSQL.$_[0]->{port}"; }

# kill -9, and another one in its place: every client and every server connection is cut.
sub crash
{
	my ($self) = @_;
	kill 'KILL', $self->{process};
	waitpid $self->{process}, 0;
	unlink $self->socket;
	$self->start;
	return;
}

# Over TCP nobody listens: the number only names the socket, and must differ from the server's.
sub free_port
{
	my $socket = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 0, Listen => 1) or die "no port: $@";
	return $socket->sockport;
}

sub ended
{
	my ($self) = @_;
	return process_state($self->{process}) eq '';
}

# As of a PostgreSQL::Test::Cluster, so that a FencingSession takes either.
sub connstr
{
	my ($self, $database) = @_;
	return "host=$self->{folder} port=$self->{port} dbname='$database'";
}

sub data_dir { return $_[0]->{node}->data_dir; }

# A client of the pool. Its server connection outlives it.
sub client
{
	my ($self, $pool, %options) = @_;
	return FencingSession->new($self, dbname => $pool, pooled => 1, %options);
}

# An answer of PgBouncer's own console: its rows, as hashes.
sub admin
{
	my ($self, $command) = @_;
	my ($text, $errors) = ('', '');
	# A test may have set what its clients ask for.
	local %ENV = %ENV;
	delete $ENV{PGOPTIONS};
	IPC::Run::run(
		['psql', '-XAq', '-P', 'footer=off', '-F', '|', '-d', $self->connstr('pgbouncer'), '-c', $command],
		'>', \$text, '2>', \$errors) or die "pgbouncer: '$command' failed: $errors\n";
	my ($header, @rows) = split /\n/, $text;
	my @names = split /\|/, $header || '';
	return map { my %row; @row{@names} = split /\|/, $_, -1; \%row } @rows;
}

# Its version as a number: 11800 for 1.18.0.
sub version
{
	my ($self) = @_;
	my ($row) = $self->admin('SHOW VERSION');
	my ($major, $minor, $patch) = $row->{version} =~ /(\d+)\.(\d+)\.(\d+)/ or die "a version without numbers\n";
	return $major * 10000 + $minor * 100 + $patch;
}

# How many clients wait for a server connection of the pool.
sub waiting
{
	my ($self, $pool) = @_;
	my $waiting = 0;
	$waiting += $_->{cl_waiting} foreach grep { $_->{database} eq $pool } $self->admin('SHOW POOLS');
	return $waiting;
}

sub stop
{
	my ($self) = @_;
	return if !$self->{process};
	# What SIGTERM means has changed with its releases; it has nothing to keep.
	kill 'KILL', $self->{process};
	waitpid $self->{process}, 0;
	delete $self->{process};
	return;
}

END
{
	my $status = $?;
	$_->stop foreach @started;
	$? = $status;
}

1;
