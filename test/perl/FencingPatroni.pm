# FencingPatroni: two servers under Patroni, with etcd, on loopback and in a folder of their own: who is the primary,
# what Patroni believes, crashes of the primary, and the way back. Everything that it starts ends with it.
package FencingPatroni;

use strict;
use warnings;

use FencingSession;
use HTTP::Tiny;
use IO::Socket::INET;
use JSON::PP;
use POSIX ();
use PostgreSQL::Test::Utils;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

my @started;

# new($folder, $conf): etcd and the two servers run, one is the primary and the other streams from it. $conf is
# configuration lines for both servers.
sub new
{
	my ($class, $folder, $conf) = @_;
	my $self = bless { folder => $folder, http => HTTP::Tiny->new(timeout => 3), processes => {} }, $class;
	push @started, $self;
	mkdir "$folder/log";
	append_to_file("$folder/server.conf", $conf);
	my ($client, $peer) = free_ports(2);
	$self->{etcd} = "127.0.0.1:$client";
	# In memory: what counts here is not the durability of etcd, and its fsyncs would hold up Patroni.
	$self->{memory} = -w '/dev/shm' ? "/dev/shm/fencing-etcd-$$" : "$folder/etcd";
	$self->run_process('etcd', 'etcd', '--name', 'etcd', '--data-dir', $self->{memory},
		'--listen-client-urls', "http://127.0.0.1:$client", '--advertise-client-urls', "http://127.0.0.1:$client",
		'--listen-peer-urls', "http://127.0.0.1:$peer", '--initial-advertise-peer-urls', "http://127.0.0.1:$peer",
		'--initial-cluster', "etcd=http://127.0.0.1:$peer");
	until_true(sub { ($self->ask("http://$self->{etcd}/health") || {})->{health} }, 60) or die "etcd does not answer\n";
	foreach my $name ('a', 'b')
	{
		my ($port, $rest) = free_ports(2);
		$self->{nodes}{$name} = bless {
			name => $name, port => $port, rest => "127.0.0.1:$rest", data => "$folder/$name" }, 'FencingPatroni::Node';
		$self->write_configuration($self->{nodes}{$name});
		$self->start_patroni($name);
		# The first becomes the primary, the second copies it.
		$self->wait_for_primary if $name eq 'a';
	}
	$self->wait_for_standby;
	return $self;
}

# Settings as short as Patroni takes them. A primary that has crashed is not started again in its place
# (primary_start_timeout), and no standby is too far behind (maximum_lag_on_failover): as lossy as can be.
sub write_configuration
{
	my ($self, $node) = @_;
	my $bin = qx("$ENV{PG_CONFIG}" --bindir);
	chomp $bin;
	my $user = { username => 'postgres', password => 'unused' };
	my $configuration = {
		scope => 'fencing',
		name => $node->{name},
		restapi => { listen => $node->{rest}, connect_address => $node->{rest} },
		etcd3 => { hosts => $self->{etcd} },
		bootstrap => {
			dcs => {
				ttl => 10, loop_wait => 1, retry_timeout => 3, maximum_lag_on_failover => 1 << 30,
				primary_start_timeout => 0, master_start_timeout => 0, synchronous_mode => JSON::PP::false,
				postgresql => {
					use_pg_rewind => JSON::PP::true, use_slots => JSON::PP::true,
					parameters => { wal_log_hints => 'on', fsync => 'off', max_connections => 50, max_prepared_transactions => 20, checkpoint_timeout => '30s' } } },
			initdb => [ 'no-sync', { encoding => 'UTF8' }, { locale => 'C.UTF-8' } ] },
		postgresql => {
			listen => "127.0.0.1:$node->{port}", connect_address => "127.0.0.1:$node->{port}",
			data_dir => $node->{data}, bin_dir => $bin, pgpass => "$self->{folder}/pgpass-$node->{name}",
			# Patroni drops parameters that it does not know from its own list, but reads a file.
			custom_conf => "$self->{folder}/server.conf",
			parameters => { unix_socket_directories => $self->{folder}, log_line_prefix => '%m [%p] %q%a ' },
			pg_hba => [ 'local all all trust', 'host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust' ],
			authentication => { superuser => $user, replication => $user, rewind => $user },
			remove_data_directory_on_rewind_failure => JSON::PP::true,
			remove_data_directory_on_diverged_timelines => JSON::PP::true } };
	# JSON is YAML.
	append_to_file("$self->{folder}/$node->{name}.yml", JSON::PP->new->canonical->encode($configuration));
	return;
}

sub free_ports
{
	my ($count) = @_;
	my @sockets = map { IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 0, Listen => 1) || die "no port: $@" } 1 .. $count;
	return map { $_->sockport } @sockets;
}

# A child with its output in a log of its name.
sub run_process
{
	my ($self, $name, @command) = @_;
	my $process = fork;
	die "could not fork: $!" if !defined $process;
	if ($process == 0)
	{
		open STDIN, '<', '/dev/null';
		open STDOUT, '>>', "$self->{folder}/log/$name";
		open STDERR, '>&', \*STDOUT;
		exec @command or POSIX::_exit(127);
	}
	$self->{processes}{$name} = $process;
	return;
}

sub start_patroni
{
	my ($self, $name) = @_;
	$self->run_process("patroni-$name", 'patroni', "$self->{folder}/$name.yml");
	return;
}

# The answer of a REST API as data; nothing when there is none.
sub ask
{
	my ($self, $url, $method, $content) = @_;
	my $response = $self->{http}->request($method || 'GET', $url, defined $content ? { content => encode_json($content) } : {});
	return eval { decode_json($response->{content}) };
}

sub nodes { return @{ $_[0]->{nodes} }{ 'a', 'b' }; }

sub other { my ($self, $node) = @_; return $self->{nodes}{ $node->{name} eq 'a' ? 'b' : 'a' }; }

# What Patroni says of the cluster, from whichever of the two answers: a list of members.
sub members
{
	my ($self) = @_;
	foreach my $node (grep { !$self->{suspended} || $_ != $self->{suspended} } $self->nodes)
	{
		my $cluster = $self->ask("http://$node->{rest}/cluster");
		return @{ $cluster->{members} } if $cluster && $cluster->{members};
	}
	return ();
}

# The primary that holds Patroni's lock and takes writes; optionally one that is not $node.
sub wait_for_primary
{
	my ($self, $not) = @_;
	my $found;
	until_true(
		sub {
			my ($leader) = grep { $_->{role} eq 'leader' } $self->members;
			return 0 if !$leader || ($not && $leader->{name} eq $not->{name});
			$found = $self->{nodes}{ $leader->{name} };
			return $found->query('SELECT pg_is_in_recovery()') eq 'f';
		}, 120, 0.1) or die "no primary\n";
	return $self->{primary} = $found;
}

sub primary { return $_[0]->{primary}; }
sub standby { return $_[0]->other($_[0]->{primary}); }

# The standby streams from the primary; in synchronous mode Patroni has chosen it as well, or it would not be promoted.
sub wait_for_standby
{
	my ($self) = @_;
	my $wanted = $self->{synchronous} ? 'sync' : 'async';
	my $role = $self->{synchronous} ? 'sync_standby' : 'replica';
	my $name = $self->standby->{name};
	my ($seen, @members);
	until_true(
		sub {
			$seen = $self->primary->query(qq(SELECT string_agg(state || ' ' || sync_state, ',') FROM pg_stat_replication
				WHERE application_name = '$name'));
			@members = $self->members;
			return $seen eq "streaming $wanted" && grep { $_->{name} eq $name && $_->{role} eq $role } @members;
		}, 120, 0.1) or die "the standby does not come back: '$seen', " . encode_json(\@members) . "\n";
	return;
}

# Switch Patroni's synchronous_mode, and wait until it is so.
sub set_synchronous
{
	my ($self, $synchronous) = @_;
	$self->ask('http://' . $self->primary->{rest} . '/config', 'PATCH',
		{ synchronous_mode => $synchronous ? JSON::PP::true : JSON::PP::false }) or die "Patroni does not take a configuration\n";
	$self->{synchronous} = $synchronous;
	$self->wait_for_standby;
	return;
}

# The standby gets no more WAL: the process that sends it is stopped. In synchronous mode COMMITs wait from now on.
sub cut_off_standby
{
	my ($self) = @_;
	my $name = $self->standby->{name};
	my $sender = $self->primary->query("SELECT pid FROM pg_stat_replication WHERE application_name = '$name'");
	$sender =~ /^\d+$/ or die "nobody sends WAL: $sender\n";
	kill 'STOP', $sender or die "could not stop the process: $!\n";
	until_true(sub { process_state($sender) eq 'T' }, 10) or die "the process does not stop\n";
	$self->{sender} = $sender;
	return;
}

# kill -9 of the postmaster, and with $patroni of its Patroni first, as when a machine is lost. Returns the seconds
# until the other server is the primary.
sub fail_over
{
	my ($self, $patroni) = @_;
	my $old = $self->primary;
	my $start = clock_gettime(CLOCK_MONOTONIC);
	$self->end_process("patroni-$old->{name}", 'KILL') if $patroni;
	kill 'KILL', $old->postmaster, grep { defined } delete $self->{sender};
	$self->wait_for_primary($old);
	return clock_gettime(CLOCK_MONOTONIC) - $start;
}

# Everything of the primary's machine stops, and the other takes over. Patroni's processes first, or they would act.
sub suspend
{
	my ($self) = @_;
	my $old = $self->{suspended} = $self->primary;
	$self->{asleep} = [ server_processes($old) ];
	kill 'STOP', $self->{processes}{"patroni-$old->{name}"}, @{ $self->{asleep} };
	$self->wait_for_primary($old);
	return $old;
}

# The suspended server goes on and believes that it is the primary.
sub wake_server
{
	my ($self) = @_;
	kill 'CONT', @{ delete $self->{asleep} };
	return;
}

# The watchdog resets the suspended machine; it boots. Without a watchdog Patroni 3.0 does not always get it right
# (docs/failover.md).
sub reset_machine
{
	my ($self) = @_;
	my $old = delete $self->{suspended};
	$self->end_process("patroni-$old->{name}", 'KILL');
	kill 'KILL', server_processes($old);
	$self->start_patroni($old->{name});
	return;
}

# A planned switch-over.
sub switch_over
{
	my ($self) = @_;
	my $old = $self->primary;
	# The answer comes when it is done.
	my $response = HTTP::Tiny->new(timeout => 120)->request('POST', "http://$old->{rest}/switchover",
		{ content => encode_json({ leader => $old->{name}, candidate => $self->standby->{name} }) });
	$response->{success} or die "no switch-over: $response->{content}\n";
	$self->wait_for_primary($old);
	return;
}

# etcd does not answer until it is lost to the primary, which steps back; then it does.
sub lose_etcd
{
	my ($self) = @_;
	my $primary = $self->primary;
	kill 'STOP', $self->{processes}{etcd};
	my $gone = until_true(sub { $primary->query('SELECT pg_is_in_recovery()') eq 't' }, 60, 0.1);
	kill 'CONT', $self->{processes}{etcd};
	$gone or die "the primary stays a primary without etcd\n";
	$self->wait_for_primary;
	return;
}

# The old primary comes back and follows.
sub bring_back
{
	my ($self) = @_;
	my $name = $self->standby->{name};
	$self->start_patroni($name) if !$self->{processes}{"patroni-$name"};
	$self->wait_for_standby;
	return;
}

# For libpq: whichever of the two takes writes.
sub connstr
{
	my ($self, $database) = @_;
	my @nodes = $self->nodes;
	return 'host=127.0.0.1,127.0.0.1 port=' . join(',', map { $_->{port} } @nodes)
	  . " target_session_attrs=read-write connect_timeout=5 user=postgres dbname='$database'";
}

# A FencingSession looks for what is left of a server in its data directory; there are two here, which stop() ends.
sub data_dir { return ''; }

sub end_process
{
	my ($self, $name, $signal) = @_;
	my $process = delete $self->{processes}{$name} or return;
	kill $signal, $process;
	until_true(sub { process_state($process) eq '' }, 30) or kill 'KILL', $process;
	waitpid $process, 0;
	return;
}

# Ends everything; a Patroni first, so that it starts no server again.
sub stop
{
	my ($self) = @_;
	$self->end_process("patroni-$_", 'KILL') foreach 'a', 'b';
	foreach my $node (grep { defined } $self->nodes)
	{
		until_true(
			sub {
				my @left = -d $node->{data} ? server_processes($node) : ();
				kill 'KILL', @left;
				return !@left;
			}, 60);
	}
	$self->end_process('etcd', 'TERM');
	PostgreSQL::Test::Utils::system_log('rm', '-rf', $self->{memory}) if $self->{memory};
	return;
}

END
{
	my $status = $?;
	$_->stop foreach @started;
	$? = $status;
}

# ---- one of the two servers
package FencingPatroni::Node;

sub data_dir { return $_[0]->{data}; }

sub postmaster
{
	my ($self) = @_;
	open my $file, '<', "$self->{data}/postmaster.pid" or die "no postmaster.pid: $!";
	my $pid = <$file>;
	close $file;
	chomp $pid;
	return $pid;
}

# The answer of this server; '' when it gives none.
sub query
{
	my ($self, $sql) = @_;
	my ($rows, $errors) = ('', '');
	IPC::Run::run(['psql', '-XAtq', '-d', "host=127.0.0.1 port=$self->{port} user=postgres dbname=postgres connect_timeout=5", '-c', $sql],
		'>', \$rows, '2>', \$errors) or return '';
	chomp $rows;
	return $rows;
}

1;
