# TortureServers: the lives of one database: a primary, a standby that streams from it, backups of it, and the
# forwarder through which the workers reach whichever server is the primary.
#
# All lives share one archive. Without it two of them would be given the same timeline, which no server can see by
# itself. It keeps the histories of the timelines alone: nobody here recovers further than what a backup or a standby
# brings along, and hours of WAL fill a disk.
package TortureServers;

use strict;
use warnings;

use FencingHistory ();
use FencingSession qw(crash_server until_true);
use FencingTest qw(fencing_conf fencing_node preload_conf);
use IO::Handle;
use IO::Socket::UNIX;
use IPC::Open2 qw(open2);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(CLOCK_MONOTONIC clock_gettime);

use constant MOST_CONNECTIONS => 40;

# Nanoseconds, as the workers note them.
sub now_ns
{
	return sprintf '%d', 1e9 * clock_gettime(CLOCK_MONOTONIC);
}

# new($programs, own => ..., outside => ..., conf => lines, faketime => library or ''): a running primary with the
# tables, its standby, and a forwarder.
sub new
{
	my ($class, $programs, %options) = @_;
	my $directory = PostgreSQL::Test::Utils::tempdir();
	my $self = bless {
		directory => $directory, lives => 0, faketime => $options{faketime} || '',
		clock => "$directory/clock", backups => [] }, $class;
	mkdir "$directory/archive";
	$self->step_clock(0);

	my $node = fencing_node($self->next_name, allows_streaming => 1);
	$node->append_conf('postgresql.conf', <<"CONF" . preload_conf() . ($options{conf} || ''));
archive_mode = on
archive_command = 'case "%f" in *.history) test -f "$directory/archive/%f" || (cp "%p" "$directory/archive/%f.part" && mv "$directory/archive/%f.part" "$directory/archive/%f");; esac'
restore_command = 'cp "$directory/archive/%f" "%p"'
restart_after_crash = on
wal_keep_size = 256MB
log_statement = none
log_line_prefix = '%m [%p] %e %q%a '
max_connections = @{[ MOST_CONNECTIONS ]}
max_prepared_transactions = 60
CONF
	$self->{primary} = $node;
	$self->start($node);
	my $schema = FencingSession::tree_root() . '/test/torture/schema.sql';
	$node->command_ok(['psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-v', "own=$options{own}", '-v', "outside=$options{outside}",
		'-d', $node->connstr('postgres'), '-f', $schema], 'the tables');

	$self->{forwarder} = open2(my $answers, my $orders, "$programs/torture-forwarder", "$directory/port");
	$orders->autoflush(1);
	@$self{qw(orders answers)} = ($orders, $answers);
	until_true(sub { -e "$directory/port" }, 30) or die "the forwarder does not listen\n";
	$self->{port} = PostgreSQL::Test::Utils::slurp_file("$directory/port") + 0;
	$self->new_standby;
	$self->let_in;
	return $self;
}

sub next_name { return 'life' . ++$_[0]->{lives}; }

sub primary { return $_[0]->{primary}; }

sub conninfo
{
	my ($self) = @_;
	return "host=127.0.0.1 port=$self->{port} user=" . getpwuid($>) . ' dbname=postgres target_session_attrs=read-write';
}

# Tell the forwarder something; how many connections it has cut.
sub order
{
	my ($self, $line) = @_;
	my $orders = $self->{orders};
	my $answers = $self->{answers};
	print $orders "$line\n";
	my $answer = <$answers>;
	die "the forwarder has ended\n" if !defined $answer;
	return $answer + 0;
}

sub let_in
{
	my ($self) = @_;
	my $node = $self->{primary};
	$self->order('to ' . $node->host . '/.s.PGSQL.' . $node->port);
	return;
}

sub shut_out
{
	my ($self) = @_;
	$self->order('to -');
	$self->order('cut 1000');
	return;
}

# Only the first life has a clock that can be stepped: the others are to show that nothing else depends on it.
sub start
{
	my ($self, $node) = @_;
	local %ENV = %ENV;
	if ($self->{faketime} ne '' && $node->name eq 'life1')
	{
		@ENV{qw(LD_PRELOAD FAKETIME_TIMESTAMP_FILE FAKETIME_CACHE_DURATION FAKETIME_DONT_FAKE_MONOTONIC FAKETIME_DISABLE_SHM)} =
		  ($self->{faketime}, $self->{clock}, 1, 1, 1);
	}
	$node->start;
	return;
}

sub has_clock
{
	my ($self) = @_;
	return $self->{faketime} ne '' && $self->{primary}->name eq 'life1';
}

sub step_clock
{
	my ($self, $seconds) = @_;
	open my $file, '>', "$self->{clock}.part" or die "clock: $!";
	printf $file "%+d\n", $seconds;
	close $file;
	rename "$self->{clock}.part", $self->{clock} or die "clock: $!";
	return;
}

# Seconds that the server's clock is ahead of ours. It may be too busy to say.
sub clock_offset
{
	my ($self) = @_;
	my ($status, $epoch) = $self->{primary}->psql('postgres', 'SELECT extract(epoch FROM clock_timestamp())');
	return $status == 0 && $epoch =~ /^\d/ ? $epoch - Time::HiRes::time() : 1e9;
}

# Reachable again, after whatever has been done to it.
sub wait_for
{
	my ($self, $node) = @_;
	until_true(
		sub { return system_log_quietly('psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', 'SELECT 1') }, 120, 0.05)
	  or die "the server does not come back\n";
	return;
}

sub system_log_quietly
{
	my (@command) = @_;
	return IPC::Run::run(\@command, '<', \undef, '>', \my $out, '2>', \my $error);
}

sub new_standby
{
	my ($self) = @_;
	my $node = $self->{primary};
	my $name = $self->next_name;
	$node->backup("for-$name");
	my $standby = PostgreSQL::Test::Cluster->new($name);
	$standby->init_from_backup($node, "for-$name", has_streaming => 1);
	$standby->append_conf('postgresql.conf', "recovery_target = ''\n");
	PostgreSQL::Test::Utils::system_or_bail('rm', '-rf', $node->backup_dir . "/for-$name");
	$standby->start;
	$self->{standby} = $standby;
	return;
}

# Not before the archive knows of the timeline may the next one be begun.
sub timeline_is_archived
{
	my ($self) = @_;
	my $life = $self->life;
	my $file = "$self->{directory}/archive/$life.history";
	until_true(sub { -e $file }, 60, 0.05) or die "the archive has no $life.history\n";
	return;
}

sub life
{
	my ($self) = @_;
	return $self->{primary}->safe_psql('postgres', 'SELECT life()');
}

sub discard
{
	my ($self, $node) = @_;
	$node->stop('immediate', fail_ok => 1) if defined $node->{_pid};
	$node->clean_node;
	return;
}

# The standby takes over. $lag is called when it does not receive WAL any more. Returns the moment up to which
# every acknowledged commit is kept.
sub promote
{
	my ($self, $lag, $done) = @_;
	my ($old, $new) = @$self{qw(primary standby)};
	my $safe = now_ns();
	FencingHistory::caught_up($old, $new);
	FencingHistory::cut_off($new);
	$lag->();
	$self->shut_out;
	$old->stop('immediate');
	$new->promote;
	return $self->take_over($new, $old, $safe, $done);
}

# An operator's way back: a new server from the backup, recovered just so far that it is consistent.
sub restore
{
	my ($self, $done) = @_;
	my $backup = shift @{ $self->{backups} };
	my ($old, $standby) = @$self{qw(primary standby)};
	my $new = PostgreSQL::Test::Cluster->new($self->next_name);
	$new->init_from_backup($backup->{node}, $backup->{name});
	$new->append_conf('postgresql.conf', <<'CONF');
recovery_target = 'immediate'
recovery_target_action = 'promote'
recovery_target_timeline = 'current'
CONF
	$new->append_conf('recovery.signal', '');
	$self->shut_out;
	$old->stop('immediate');
	$self->discard($standby);
	$new->start;
	$new->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die "the restored server does not open\n";
	$new->append_conf('postgresql.conf', <<'CONF');
recovery_target = ''
recovery_target_timeline = 'latest'
CONF
	$self->drop_backup($backup);
	return $self->take_over($new, $old, $backup->{safe}, $done);
}

sub take_over
{
	my ($self, $new, $old, $safe, $done) = @_;
	$self->{primary} = $new;
	$self->timeline_is_archived;
	$done->($safe);
	$self->let_in;
	$self->discard($old);
	$self->new_standby;
	return;
}

# A backup that a later restore() uses.
sub take_backup
{
	my ($self) = @_;
	my $safe = now_ns();
	my $name = "kept-$safe";
	# Its folder has to outlive the server from which it was taken.
	my $keeper = $self->{keeper} ||= PostgreSQL::Test::Cluster->new('keeper');
	my $node = $self->{primary};
	$node->backup($name);
	mkdir $keeper->basedir, 0700;
	mkdir $keeper->backup_dir;
	rename $node->backup_dir . "/$name", $keeper->backup_dir . "/$name" or die "backup: $!";
	push @{ $self->{backups} }, { node => $keeper, name => $name, safe => $safe };
	$self->drop_backup(shift @{ $self->{backups} }) if @{ $self->{backups} } > 3;
	return;
}

sub drop_backup
{
	my ($self, $backup) = @_;
	PostgreSQL::Test::Utils::system_or_bail('rm', '-rf', $backup->{node}->backup_dir . "/$backup->{name}");
	return;
}

sub has_backup { return scalar @{ $_[0]->{backups} }; }

# All connections that the server has. Each is a socket on which a session has been opened.
sub exhaust
{
	my ($self) = @_;
	my $node = $self->{primary};
	my @sockets;
	foreach (1 .. MOST_CONNECTIONS)
	{
		my $socket = IO::Socket::UNIX->new(Peer => $node->host . '/.s.PGSQL.' . $node->port) or last;
		my $body = pack('N', 196608) . join("\0", 'user', scalar getpwuid($>), 'database', 'postgres', '', '');
		print $socket pack('N', 4 + length $body) . $body;
		$socket->flush;
		push @sockets, $socket;
	}
	return \@sockets;
}

# Give them back, and wait until the server has noticed.
sub relieve
{
	my ($self, $sockets) = @_;
	close $_ foreach @$sockets;
	my $node = $self->{primary};
	until_true(
		sub {
			my ($status, $count) = $node->psql('postgres', 'SELECT count(*) FROM pg_stat_activity');
			return $status == 0 && $count < MOST_CONNECTIONS - 10;
		}, 60, 0.05) or die "the connections do not go away\n";
	return;
}

# The tables as one snapshot, for the checker.
sub dump_tables
{
	my ($self, $path) = @_;
	my $begun = now_ns();
	my $life = $self->life;
	my ($out, $error);
	my $file = FencingSession::tree_root() . '/test/torture/dump.sql';
	IPC::Run::run(['psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $self->{primary}->connstr('postgres'), '-f', $file],
		'>', \$out, '2>', \$error) or die "could not dump: $error\n";
	open my $handle, '>', $path or die "$path: $!";
	print $handle "dump $begun @{[ now_ns() ]} $life\n$out";
	close $handle;
	return;
}

sub stop
{
	my ($self) = @_;
	if ($self->{forwarder})
	{
		close $self->{orders};
		waitpid $self->{forwarder}, 0;
		delete $self->{forwarder};
	}
	$_->stop('immediate') foreach grep { defined } delete @$self{qw(standby primary)};
	return;
}

1;
